package pass_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// overflowing returns a stack whose only worker of the test card has a job, with an idle worker of the model "out", and a
// rerouter.
func overflowing(t *testing.T) (*jobstest.Stack, *pass.Rerouter, jobs.Principal) {
	t.Helper()
	s := jobstest.New(t)
	known := s.Submitter.Catalogue.Current()
	card, err := known.Model("testcard")
	require.NoError(t, err)
	out := *card
	out.Name = "out"
	s.Submitter.Catalogue.Replace(catalogue.New(append(known.Models(), &out)...))
	jobstest.SubmitWith(t, s, func(*submit.Submission) {})
	s.Lease(t, s.Worker(t, "own"))
	outside := s.Worker(t, "outside")
	s.Exec(t, "UPDATE workers SET models = '{out}' WHERE id = ?", outside.WorkerID)
	return s, &pass.Rerouter{DB: s.DB, Notifier: s.Notifier, Catalogue: s.Submitter.Catalogue}, outside
}

func TestReroute(t *testing.T) {
	t.Parallel()

	moves := func(t *testing.T, s *jobstest.Stack, r *pass.Rerouter, n int) {
		t.Helper()
		require.Equal(t, n, jobstest.Together(t, 3, r.Reroute))
		s.RequireInvariants(t)
		s.RequireRows(t)
	}
	out := func(in *submit.Submission) { in.Fallback = []string{"out"} }
	late := func(t *testing.T, s *jobstest.Stack) {
		t.Helper()
		s.Exec(t, "UPDATE jobs SET queued_at = queued_at - interval '1 hour' WHERE status = 'QUEUED'")
	}

	t.Run("WhenTheWaitTargetIsOver", func(t *testing.T) {
		t.Parallel()
		s, r, outside := overflowing(t)
		job := jobstest.SubmitWith(t, s, out)
		moves(t, s, r, 0)
		late(t, s)
		moves(t, s, r, 1)

		moved := s.Reload(t, job.ID)
		require.Equal(t, "out", moved.Model)
		require.Equal(t, models.JobQueued, moved.Status)
		require.Len(t, moved.Routes, 1)
		require.Contains(t, moved.Routes[0].Reason, "it waited longer for testcard than the 30")
		moves(t, s, r, 0) // it goes out once
		granted := jobstest.LeaseNext(t, s, outside)
		require.NotNil(t, granted)
		require.Equal(t, job.ID, granted.Job.ID)
		s.RequireInvariants(t)
	})

	t.Run("WhenFinishByIsNear", func(t *testing.T) {
		t.Parallel()
		s, r, _ := overflowing(t)
		near := jobstest.SubmitWith(t, s, func(in *submit.Submission) { out(in); in.FinishBy = new(time.Now().Add(2 * time.Minute)) })
		far := jobstest.SubmitWith(t, s, func(in *submit.Submission) { out(in); in.FinishBy = new(time.Now().Add(20 * time.Hour)) })
		moves(t, s, r, 1)
		require.Contains(t, s.Reload(t, near.ID).Routes[0].Reason, "would not be complete by its finishBy")
		require.Equal(t, "testcard", s.Reload(t, far.ID).Model)
		moves(t, s, r, 0)
	})

	t.Run("WhenNothingRendersItsModel", func(t *testing.T) {
		t.Parallel()
		s, r, _ := overflowing(t)
		s.Exec(t, "UPDATE workers SET models = '{video.stitch}' WHERE provider_instance_id = 'own'")
		job := jobstest.SubmitWith(t, s, out)
		moves(t, s, r, 1)
		require.Equal(t, "nothing can render testcard now", s.Reload(t, job.ID).Routes[0].Reason)
	})

	t.Run("OnlyAsManyAsHaveRoom", func(t *testing.T) {
		t.Parallel()
		s, r, outside := overflowing(t)
		for range 5 {
			jobstest.SubmitWith(t, s, out)
		}
		late(t, s)
		moves(t, s, r, 1)
		moves(t, s, r, 0)
		require.NotNil(t, jobstest.LeaseNext(t, s, outside))
		moves(t, s, r, 0) // its only worker is busy
	})

	t.Run("TheMostUrgentFirst", func(t *testing.T) {
		t.Parallel()
		s, _, _ := overflowing(t)
		for range 3 {
			jobstest.SubmitWith(t, s, func(in *submit.Submission) { out(in); in.FinishBy = new(time.Now().Add(20 * time.Hour)) })
		}
		near := jobstest.SubmitWith(t, s, func(in *submit.Submission) { out(in); in.FinishBy = new(time.Now().Add(2 * time.Minute)) })
		jobstest.SubmitWith(t, s, out) // is not late yet

		found, err := models.ListReroutable(t.Context(), s.DB, []string{"out"}, nil, map[models.Tier]float64{models.TierPro: 30}, 1)

		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, near.ID, found[0].ID)
	})

	t.Run("NotOthers", func(t *testing.T) {
		t.Parallel()
		s, r, _ := overflowing(t)
		jobstest.SubmitWith(t, s, func(*submit.Submission) {}) // has no other model
		paid := jobstest.SubmitWith(t, s, out)
		s.Exec(t, "UPDATE jobs SET handle = 'paid' WHERE id = ?", paid.ID)
		planned := jobstest.SubmitWith(t, s, func(in *submit.Submission) { out(in); in.RunAt = new(time.Now().Add(time.Hour)) })
		late(t, s)
		s.Exec(t, `UPDATE jobs SET fallback = '{"models": ["out"]}' WHERE status = 'ASSIGNED'`) // a worker has it
		moves(t, s, r, 0)
		require.Equal(t, "testcard", s.Reload(t, planned.ID).Model)
	})
}

// A hosted provider has room while an account there is ready and has a free slot.
func TestReroute_ToAHostedProvider(t *testing.T) {
	t.Parallel()

	s, r, outside := overflowing(t)
	known := s.Submitter.Catalogue.Current().Models()
	out := *known[len(known)-1]
	out.Runtime = "runway"
	s.Submitter.Catalogue.Replace(catalogue.New(append(known[:len(known)-1:len(known)-1], &out)...))
	pool, err := s.Pools.Create(t.Context(), s.Admin, capacity.PoolSpec{Name: "runway", Provider: engine.Provider, EngineKind: "runway",
		Engines: []string{"https://api.dev.runwayml.com"}})
	require.NoError(t, err)
	s.Exec(t, "UPDATE pools SET models = '{out}' WHERE id = ?", pool.ID)
	s.Exec(t, "UPDATE workers SET pool_id = ?, provider = 'engines' WHERE id = ?", pool.ID, outside.WorkerID)
	job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.Fallback = []string{"out"} })
	s.Exec(t, "UPDATE jobs SET queued_at = queued_at - interval '1 hour' WHERE status = 'QUEUED'")
	for _, state := range []string{
		"concurrent = 0", // full
		"concurrent = 5, paused_until = clock_timestamp() + interval '1 hour'",
		"paused_until = NULL, open_since = clock_timestamp(), open_until = clock_timestamp() + interval '1 hour'",
	} {
		s.Exec(t, "UPDATE provider_accounts SET "+state)
		moved, err := r.Reroute(t.Context())
		require.NoError(t, err)
		require.Zero(t, moved, state)
	}
	s.Exec(t, "UPDATE provider_accounts SET open_since = NULL, open_until = NULL")
	require.Equal(t, 1, jobstest.Together(t, 2, r.Reroute))
	require.Equal(t, "out", s.Reload(t, job.ID).Model)
}
