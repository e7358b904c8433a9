package models_test

import (
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

func TestNeeds(t *testing.T) {
	t.Parallel()

	cheap, dear := new(0.5), new(1e-7)
	for want, got := range map[models.Needs]models.Needs{
		"":                     models.NewNeeds(false, nil),
		"on-demand":            models.NewNeeds(true, nil),
		"price<=0.5":           models.NewNeeds(false, cheap),
		"on-demand,price<=0.5": models.NewNeeds(false, cheap).Also(true),
		"price<=1e-07":         models.NewNeeds(true, dear).Also(false),
	} {
		require.Equal(t, want, got)
		require.Equal(t, got, models.NewNeeds(got.OnDemand(), got.MaxPrice()))
	}
	for want, got := range map[models.Needs]models.Needs{
		"cheap":                    models.NewNeeds(true, nil).WithSlack(),
		"cheap,price<=0.5":         models.NewNeeds(true, cheap).WithSlack(),
		"now":                      models.NewNeeds(true, nil).WithoutSlack(false),
		"on-demand,now,price<=0.5": models.NewNeeds(false, cheap).WithSlack().WithoutSlack(true),
		"on-demand,price<=0.5":     models.NewNeeds(false, cheap).WithoutSlack(false).Also(true),
	} {
		require.Equal(t, want, got)
		require.Equal(t, [3]bool{strings.Contains(string(want), "on-demand"), strings.Contains(string(want), "cheap"),
			strings.Contains(string(want), "now")},
			[3]bool{got.OnDemand(), got.Cheap(), got.Now()}, want)
		require.Equal(t, strings.TrimSuffix(string(want), ",price<=0.5"), string(got.AtAnyPrice()))
	}

	spot := models.Offer{CapacityClass: models.CapacitySpot, PricePerHourUSD: new(0.5)}
	safe := models.Offer{CapacityClass: models.CapacityOnDemand, PricePerHourUSD: new(0.51)}
	unknown := models.Offer{CapacityClass: models.CapacityOnDemand}
	for needs, who := range map[models.Needs][3]bool{
		"":                      {true, true, true},
		"on-demand":             {false, true, true},
		"price<=0.5":            {true, false, false},
		"price<=0.51":           {true, true, false},
		"on-demand,price<=0.51": {false, true, false},
		"cheap":                 {true, false, true}, // a worker without a price costs nothing more
		"cheap,price<=0.4":      {false, false, false},
		"on-demand,now":         {false, true, true},
		"now":                   {true, true, true},
		"price<=cheap":          {false, false, false}, // of a release to come
	} {
		require.Equal(t, who, [3]bool{spot.Meets(needs), safe.Meets(needs), unknown.Meets(needs)}, needs)
	}
	require.NotEqual(t, safe.Key(), unknown.Key())
}

func TestLate(t *testing.T) {
	t.Parallel()

	due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	job := models.Job{FinishBy: due}
	require.False(t, job.Late(due))
	require.True(t, job.Late(due.Add(1)))
	job.CompletedAt = due
	require.False(t, job.Late(due.Add(time.Hour)), "it was complete in time")
	require.False(t, (&models.Job{}).Late(due))
}

func TestReadLanes(t *testing.T) {
	t.Parallel()

	t.Run("TellsWhenAQueueOfALaneWasClosedLast", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		now, err := postgres.Now(t.Context(), db)
		require.NoError(t, err)
		set := func(lane models.Tier, paused bool) {
			require.NoError(t, models.SetQueuePause(t.Context(), db,
				&models.QueuePause{Lane: lane, Paused: paused, ChangedBy: "test", Reason: "test", ChangedAt: now}))
		}
		set(models.TierFree, true)
		set(models.TierBatch, true)
		set(models.TierBatch, false)

		lanes, err := models.ReadLanes(t.Context(), db)

		require.NoError(t, err)
		until := map[models.Tier]time.Time{}
		for _, lane := range lanes {
			until[lane.Lane] = lane.ClosedUntil
		}
		require.Zero(t, until[models.TierPro], "never")
		require.True(t, until[models.TierFree].After(now.Add(time.Hour)), "it still is")
		require.False(t, until[models.TierBatch].IsZero())
		require.True(t, until[models.TierBatch].Before(now.Add(time.Hour)), "it no longer is")
	})

	t.Run("ListsWhatTheQueuedJobsOfALaneNeed", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 3, 40, 5, 5)
		for _, query := range []string{
			"UPDATE jobs SET needs = 'on-demand' WHERE id IN (SELECT id FROM jobs WHERE status = 'QUEUED' LIMIT 3)",
			"UPDATE jobs SET needs = 'price<=2' WHERE id IN (SELECT id FROM jobs WHERE status = 'QUEUED' AND needs = '' LIMIT 3)",
			"UPDATE jobs SET needs = 'price<=1' WHERE status = 'FAILED'",
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}

		lanes, err := models.ReadLanes(t.Context(), db)

		require.NoError(t, err)
		for _, lane := range lanes {
			if lane.Lane == models.TierPro {
				require.Equal(t, []models.Needs{"on-demand", "price<=2"}, lane.Needs)
			} else {
				require.Empty(t, lane.Needs)
			}
		}
	})
}
