package metrics

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

// none is queues in which nothing waits.
func none(context.Context) ([]backlog.QueueCount, error) { return nil, nil }

// scrape returns the lines of our own metrics, without comments and the build.
func scrape(t *testing.T, m *Metrics) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	require.Contains(t, answer.Body.String(), "go_goroutines ")
	return slices.DeleteFunc(strings.Split(answer.Body.String(), "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "reelay_") || strings.HasPrefix(line, "reelay_build_info")
	})
}

// leased is a job's first lease, predicted and given after so many seconds.
func leased(m *Metrics, tier models.Tier, predicted, waited float64) {
	before := models.Job{Tier: tier, Status: models.JobQueued}
	after := models.Job{Tier: tier, Status: models.JobAssigned, AttemptNo: 1, PredictedWaitSeconds: &predicted, WaitedSeconds: &waited}
	m.Changed(&before, &after)
}

// completed is the completion of a job, predicted and reached after so many seconds.
func completed(m *Metrics, tier models.Tier, predicted, took float64, edit ...func(before, after *models.Job)) {
	created := time.Now()
	before := models.Job{Tier: tier, Status: models.JobRunning}
	after := models.Job{
		Tier: tier, Status: models.JobCompleted, Run: 1, PredictedSeconds: &predicted,
		CreatedAt: created, CompletedAt: created.Add(time.Duration(took * float64(time.Second))),
	}
	for _, e := range edit {
		e(&before, &after)
	}
	m.Changed(&before, &after)
}

func TestMetrics(t *testing.T) {
	t.Parallel()

	t.Run("CountRefusalsWaitsAndQueues", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: func(context.Context) ([]backlog.QueueCount, error) {
			return []backlog.QueueCount{
				{Lane: models.TierFree, Depth: 12}, // of all models
				{Lane: models.TierFree, Model: "testcard", Depth: 12},
				{Lane: models.TierPro, Model: "testcard"},
			}, nil
		}})
		m.Refused(apierror.CodeRateLimited, models.TierFree)
		m.Refused(apierror.CodeRateLimited, models.TierFree)
		leased(m, models.TierPro, 10, 7)
		leased(m, models.TierPro, 7, 10)
		completed(m, models.TierFree, 60, 95)

		lines := scrape(t, m)

		require.Subset(t, lines, []string{
			`reelay_submits_refused_total{code="RATE_LIMITED",tier="FREE"} 2`,
			`reelay_eta_error_seconds_bucket{tier="PRO",le="2"} 0`,
			`reelay_eta_error_seconds_bucket{tier="PRO",le="5"} 2`,
			`reelay_eta_error_seconds_sum{tier="PRO"} 6`,
			`reelay_completion_error_seconds_bucket{tier="FREE",le="30"} 0`,
			`reelay_completion_error_seconds_bucket{tier="FREE",le="60"} 1`,
			`reelay_completion_error_seconds_sum{tier="FREE"} 35`,
			`reelay_queue_depth{model="testcard",tier="FREE"} 12`,
			`reelay_queue_depth{model="testcard",tier="PRO"} 0`,
		})
		require.Len(t, slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "reelay_queue_depth") }), 2)
	})

	t.Run("LeaveOutUnpredictedAndFailedJobs", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: none})
		completed(m, models.TierPro, 60, 95, func(_, after *models.Job) { after.PredictedSeconds = nil })
		completed(m, models.TierPro, 60, 95, func(_, after *models.Job) { after.Failures = 1 })
		completed(m, models.TierPro, 60, 95, func(_, after *models.Job) { after.Run = 2 })
		completed(m, models.TierPro, 60, 95, func(before, _ *models.Job) { before.Status = models.JobCompleted })
		again := models.Job{Status: models.JobAssigned, AttemptNo: 2, PredictedWaitSeconds: new(1.0), WaitedSeconds: new(1.0)}
		m.Changed(&models.Job{Status: models.JobQueued}, &again)

		require.NotContains(t, strings.Join(scrape(t, m), "\n"), "_error_seconds")
	})

	// A label that a customer chooses, or that each of them has, would be a series for
	// each, and tell who they are.
	t.Run("HaveOnlyLabelsWithFewValues", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: func(context.Context) ([]backlog.QueueCount, error) {
			return []backlog.QueueCount{{Lane: models.TierPro, Model: "testcard", Depth: 1}}, nil
		}})
		m.Refused(apierror.CodeOverloaded, models.TierBatch)
		leased(m, models.TierBatch, 1, 1)
		completed(m, models.TierBatch, 1, 1)

		families, err := m.registry.Gather()

		require.NoError(t, err)
		own := map[string][]string{}
		for _, family := range families {
			if name := family.GetName(); strings.HasPrefix(name, "reelay_") {
				for _, label := range family.GetMetric()[0].GetLabel() {
					own[name] = append(own[name], label.GetName())
				}
			}
		}
		require.Equal(t, map[string][]string{
			"reelay_submits_refused_total": {"code", "tier"}, "reelay_eta_error_seconds": {"tier"},
			"reelay_completion_error_seconds": {"tier"}, "reelay_queue_depth": {"model", "tier"}, "reelay_jobs_ended_total": {"model", "status"},
			"reelay_jobs_finished_total": {"class", "status"}, "reelay_queue_wait_seconds": {"tier"}, "reelay_queue_running": {"model", "tier"},
			"reelay_queue_paused": {"tier"}, "reelay_queue_promoted": {"tier"}, "reelay_build_info": {"commit", "go", "version"},
		}, own)
	})

	t.Run("ReadTheQueuesAtMostEveryFiveSeconds", func(t *testing.T) {
		t.Parallel()

		synctest.Test(t, func(t *testing.T) {
			asked := 0
			m := New(Sources{Queues: func(context.Context) ([]backlog.QueueCount, error) { asked++; return nil, nil }})

			for range 3 {
				_, err := m.registry.Gather()
				require.NoError(t, err)
			}
			require.Equal(t, 1, asked)
			time.Sleep(readEvery) // the bubble's clock
			_, err := m.registry.Gather()

			require.NoError(t, err)
			require.Equal(t, 2, asked)
		})
	})

	t.Run("AreServedWithoutTheDatabaseExceptForUnknownValues", func(t *testing.T) {
		t.Parallel()

		synctest.Test(t, func(t *testing.T) {
			down := false
			m := New(Sources{Queues: func(ctx context.Context) ([]backlog.QueueCount, error) {
				until, bounded := ctx.Deadline()
				require.True(t, bounded)
				require.LessOrEqual(t, time.Until(until), readTimeout)
				if down {
					return nil, errors.New("dial postgres://user:password@host")
				}
				return []backlog.QueueCount{{Lane: models.TierPro, Model: "testcard", Depth: 5}}, nil
			}})
			m.Refused(apierror.CodeOverloaded, models.TierFree)
			require.Contains(t, scrape(t, m), `reelay_queue_depth{model="testcard",tier="PRO"} 5`)
			down = true
			time.Sleep(readEvery) // the bubble's clock

			lines := scrape(t, m)

			require.Equal(t, []string{`reelay_submits_refused_total{code="OVERLOADED",tier="FREE"} 1`}, lines, "an old depth, or 0, would be wrong")
		})
	})

	t.Run("AreEmptyAtFirst", func(t *testing.T) {
		t.Parallel()

		require.Empty(t, scrape(t, New(Sources{Queues: none})))
	})
}
