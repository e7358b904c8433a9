package estimate

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestDeadline(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	// A render takes 100 seconds, and 110 if it is slow. A load takes 20.
	for name, c := range map[string]struct {
		edit     func(*models.Job)
		fleet    func(*Forecast)
		saved    float64
		running  int
		feasible any
		earliest time.Time
	}{
		"Fits":             {feasible: true, earliest: at(10 + 20 + 110)},
		"FitsExactly":      {edit: func(j *models.Job) { j.FinishBy = at(140) }, feasible: true, earliest: at(140)},
		"DoesNotFit":       {edit: func(j *models.Job) { j.FinishBy = at(139) }, feasible: false, earliest: at(140)},
		"CountsCheckpoint": {edit: func(j *models.Job) { j.FinishBy = at(139) }, saved: 50, feasible: true, earliest: at(10 + 20 + 55)},
		"CountsOtherCapacityThanCheapOne": {edit: func(j *models.Job) { j.Needs = j.Needs.WithSlack() },
			feasible: true, earliest: at(140)},
		"HasNoWorkers":  {fleet: func(o *Forecast) { o.classes = nil }, feasible: nil},
		"ExpiresBefore": {edit: func(j *models.Job) { j.ExpiresAt = at(9) }, feasible: false},
		"HasStartedBeforeItExpires": {edit: func(j *models.Job) { j.ExpiresAt, j.StartedAt = at(9), at(-9) }, feasible: true,
			earliest: at(140)},
		"IsPast":    {edit: func(j *models.Job) { j.FinishBy = now }, feasible: false, earliest: at(140)},
		"IsBlocked": {edit: func(j *models.Job) { j.Status = models.JobBlocked }, feasible: nil},
		"IsScheduled": {edit: func(j *models.Job) { j.Status, j.RunAt = models.JobScheduled, at(1000) }, feasible: false,
			earliest: at(1140)},
		"Renders": {edit: func(j *models.Job) {
			j.Status, j.Progress = models.JobRunning, models.Progress{Percent: 50, UpdatedAt: now}
		}, feasible: true, earliest: at(55)},
		"HasJustBeenAssigned": {edit: func(j *models.Job) { j.Status = models.JobAssigned }, feasible: true, earliest: at(132)},
		"IsPaused": {fleet: func(o *Forecast) {
			o.lanes = map[models.Tier]models.LaneState{models.TierPro: {Paused: true}}
		}, feasible: nil},
		"CanBootAWorker":         {fleet: boots(1), feasible: true, earliest: at(60 + 20 + 110)},
		"AwaitsItsAccountsSlot":  {fleet: boots(1), running: 2, feasible: false, earliest: at(60 + 100 + 20 + 110)},
		"CannotBootWithoutPools": {fleet: boots(0), feasible: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &models.Job{Status: models.JobQueued, Model: "testcard", Tier: models.TierPro, Lane: models.TierPro, AccountID: "a",
				EstimatedGPUSeconds: 100, FinishBy: at(200)}
			if c.edit != nil {
				c.edit(job)
			}
			known := &catalogue.Snapshot{}
			kind := &class{Capability: catalogue.Capability{Ranks: map[string]int{"testcard": 1}}, workers: []workerView{{free: 10}}}
			o := &Forecast{catalogue: known, classes: []*class{kind}, newWorkers: NewWorkers{loads: map[string]float64{"testcard": 20}}}
			if c.fleet != nil {
				c.fleet(o)
			}
			o.run()
			q := newQuery(job, &models.Account{ID: "a", Weight: 1, Running: c.running, MaxRunning: 2})

			got := o.deadline(job, q, c.saved, now)

			require.Equal(t, c.earliest, got.EarliestFinish)
			if c.feasible == nil {
				require.Nil(t, got.Feasible)
			} else {
				require.Equal(t, c.feasible, *got.Feasible)
			}
			job.Status = models.JobCompleted
			require.Nil(t, o.deadline(job, q, 0, now), "it has ended")
		})
	}
}

// boots leaves the forecast no workers, and a pool that boots so many in a minute.
func boots(most int) func(*Forecast) {
	return func(o *Forecast) {
		o.classes = nil
		o.newWorkers.Capacity = []capacity.Capacity{{Offer: models.Offer{Models: []string{"testcard"}}, Opens: most, Room: most, BootSeconds: new(60.0)}}
	}
}
