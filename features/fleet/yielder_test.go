package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// crowded is a stack whose only worker renders a BATCH job, while a PRO job is late.
type crowded struct {
	*jobstest.Stack
	yielder     *fleet.Yielder
	pool        *capacity.Pool
	worker      jobs.Principal
	fence       lease.Fence
	batch, late *models.Job
}

func newCrowded(t *testing.T) *crowded {
	t.Helper()
	s, _, provider, pool := scaled(t, 0, 1)
	c := &crowded{Stack: s, pool: pool, yielder: &fleet.Yielder{DB: s.DB, Notifier: s.Notifier, Catalogue: s.Leaser.Catalogue}}
	s.Exec(t, "UPDATE accounts SET max_running = 9")
	c.batch = jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
	provider.Running = []string{"one"}
	c.worker = enrol(t, s, provider, pool)[0]
	_, c.fence = s.Lease(t, c.worker)
	s.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = 1000 WHERE id = ?", c.batch.ID)
	jobstest.Checkpoint(t, s, c.worker, c.fence, 7)
	_, err := s.Attempts.ReportProgress(t.Context(), c.worker, c.fence,
		lease.ProgressReport{Progress: models.Progress{Percent: 20, Phase: models.PhaseRendering}})
	require.NoError(t, err)
	c.late = jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierPro })
	s.Exec(t, "UPDATE jobs SET queued_at = queued_at - interval '130 s' WHERE id = ?", c.late.ID)
	return c
}

// asked runs a round, and reports how many attempts it asked to give way.
func (c *crowded) asked(t *testing.T) int {
	t.Helper()
	n, err := c.yielder.Yield(t.Context())
	require.NoError(t, err)
	return n
}

func (c *crowded) beat(t *testing.T) lease.Directive {
	t.Helper()
	answer, err := c.Attempts.Heartbeat(t.Context(), c.worker, c.fence, nil)
	require.NoError(t, err)
	return answer.Directive
}

func TestYielder(t *testing.T) {
	t.Parallel()

	t.Run("AsksABatchJobToGiveWayOnce", func(t *testing.T) {
		t.Parallel()
		c := newCrowded(t)
		require.Equal(t, lease.DirectContinue, c.beat(t).Action)

		require.Equal(t, 1, jobstest.Together(t, 3, func(ctx context.Context) (int, error) { return c.yielder.Yield(ctx) }))
		require.Zero(t, c.asked(t))

		d := c.beat(t)
		require.Equal(t, lease.DirectCheckpoint, d.Action)
		require.Equal(t, "a PRO job waits past its target", d.Reason)
		require.Equal(t, c.batch.ID, d.JobID)
		require.WithinDuration(t, time.Now().Add(lease.YieldWithin), d.Deadline, time.Minute)
		decision := scalingHistory(t, c.Stack, c.pool, 1)[0]
		require.Regexp(t, `^1 running job is preempted: a PRO job has waited 2 min 1\d s \(target 2 min\), and no worker is free for it soon\.$`,
			decision.Reason)
		require.Contains(t, string(decision.Inputs), string(c.late.ID))
		c.RequireInvariants(t)
	})

	t.Run("TheJobKeepsItsPlaceAndItsAttempts", func(t *testing.T) {
		t.Parallel()
		c := newCrowded(t)
		behind := jobstest.SubmitAs(t, c.Stack, c.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
		before := c.Reload(t, c.batch.ID)
		require.Equal(t, 1, c.asked(t))

		released, err := c.Attempts.Release(t.Context(), c.worker, c.fence, models.FailYielded)
		require.NoError(t, err)
		again, err := c.Attempts.Release(t.Context(), c.worker, c.fence, models.FailYielded)
		require.NoError(t, err)

		require.Equal(t, again.EventSeq, released.EventSeq)
		require.Equal(t, models.JobQueued, released.Status)
		require.Zero(t, released.Failures)
		require.Equal(t, before.LatestCheckpointID, released.LatestCheckpointID)
		require.Equal(t, "preempted by a PRO job; requeued", released.Progress.Message)
		attempt, err := models.GetAttempt(t.Context(), c.DB, c.fence.AttemptID)
		require.NoError(t, err)
		require.Equal(t, models.AttemptReleased, attempt.Status)
		require.Equal(t, "preempted by a PRO job", attempt.FailureReason)
		require.False(t, attempt.Counted)
		waiting, err := c.WaitingFor(t, c.batch.ID)
		require.NoError(t, err)
		require.Equal(t, "Preempted by a PRO job. 1 job ahead in the batch lane and the lanes above it.", waiting[c.batch.ID][0].Message)
		for _, expected := range []models.JobID{c.late.ID, c.batch.ID, behind.ID} {
			granted, fence := c.Lease(t, c.worker)
			require.Equal(t, expected, granted.Job.ID)
			if expected == c.batch.ID {
				require.Len(t, granted.Checkpoints, 1)
				require.Zero(t, c.asked(t), "nothing is late")
			}
			_, err := c.Attempts.Complete(t.Context(), c.worker, fence,
				lease.Completion{Video: new(c.Upload(t, c.worker, fence, models.ArtifactFinalVideo, []byte("a video")))})
			require.NoError(t, err)
		}
		c.RequireInvariants(t)
	})

	t.Run("ForgetsARequestThatAnAgentIgnores", func(t *testing.T) {
		t.Parallel()
		c := newCrowded(t)
		require.Equal(t, 1, c.asked(t))
		c.Exec(t, "UPDATE job_attempts SET yield_requested_at = yield_requested_at - interval '121 s' WHERE ended_at IS NULL")

		require.Equal(t, lease.DirectContinue, c.beat(t).Action)
		require.Zero(t, c.asked(t))
		_, err := c.Attempts.Complete(t.Context(), c.worker, c.fence,
			lease.Completion{Video: new(c.Upload(t, c.worker, c.fence, models.ArtifactFinalVideo, []byte("a video")))})
		require.NoError(t, err)
		c.RequireInvariants(t)
	})

	for name, change := range map[string]string{
		"IfItIsNotLate":             "UPDATE jobs SET queued_at = clock_timestamp() - interval '100 s' WHERE status = 'QUEUED'",
		"ForACappedAccount":         "UPDATE accounts SET max_running = 1",
		"WhileLeasesAreHalted":      "INSERT INTO halts (what, halted_by, reason) VALUES ('LEASES', 'test', 'x')",
		"ForAPausedQueue":           "INSERT INTO queue_pauses (lane, model, paused, changed_by) VALUES ('PRO', 'testcard', true, 'test')",
		"ForALaneThatItsPoolLeaves": "UPDATE workers SET tiers = '{BATCH}'",
		"InAPoolWithoutYieldingOf":  "UPDATE pools SET yielding_tiers = '{FREE}'",
		"AtMostOnce":                "UPDATE jobs SET at_most_once = true",
		"WithWorkOutsideTheWorker":  "UPDATE jobs SET handle = 'x' WHERE status = 'RUNNING'",
		"BeforeItRenders":           "UPDATE jobs SET phase = 'LOADING_MODEL' WHERE status = 'RUNNING'",
		"WhoseCancelIsRequested":    "UPDATE jobs SET cancel_requested_at = now() WHERE status = 'RUNNING'",
		"OnADrainingWorker":         "UPDATE workers SET status = 'DRAINING', drain_reason = 'test'",
		"ForAJobThatAvoidsAWorker":  "UPDATE jobs SET avoid_until = now() + interval '1 h' WHERE status = 'QUEUED'",
		"AheadOfAnExpiredJob":       "UPDATE jobs SET expires_at = now() WHERE status = 'QUEUED'",
		"ThatHasCheckpointsNowhere": "UPDATE jobs SET latest_checkpoint_id = NULL; UPDATE job_attempts SET leased_at = leased_at - interval '70 s', checkpoint_id = NULL, checkpoint_at = NULL",
	} {
		t.Run("AsksNoJob"+name, func(t *testing.T) {
			t.Parallel()
			c := newCrowded(t)
			c.Exec(t, change)

			require.Zero(t, c.asked(t))
		})
	}

	t.Run("ACancelAndADrainComeFirst", func(t *testing.T) {
		t.Parallel()
		c := newCrowded(t)
		require.Equal(t, 1, c.asked(t))
		_, err := c.Fleet.DrainWorker(t.Context(), c.Admin, c.worker.WorkerID, time.Minute)
		require.NoError(t, err)
		require.Equal(t, lease.DirectDrain, c.beat(t).Action)
		_, err = c.Canceller.Cancel(t.Context(), c.Client, c.batch.ID)
		require.NoError(t, err)
		require.Equal(t, lease.DirectCancel, c.beat(t).Action)

		released, err := c.Attempts.Release(t.Context(), c.worker, c.fence, models.FailYielded)
		require.NoError(t, err)
		require.Equal(t, models.JobCancelled, released.Status)
		require.Equal(t, models.WorkerDraining, jobstest.WorkerStatus(t, c.Stack, c.worker.WorkerID))
		c.RequireInvariants(t)
	})

	t.Run("AJobThatWasNotAskedDoesNotGiveWay", func(t *testing.T) {
		t.Parallel()
		c := newCrowded(t)
		_, err := c.Attempts.Release(t.Context(), c.worker, c.fence, models.FailYielded)
		jobstest.RequireInvalid(t, err, "reason")
	})

	t.Run("ALossComesFirst", func(t *testing.T) {
		t.Parallel()
		c := newCrowded(t)
		require.Equal(t, 1, c.asked(t))
		c.ExpireLease(t, c.fence.AttemptID)
		_, err := c.Reaper.Reap(t.Context())
		require.NoError(t, err)

		_, err = c.Attempts.Release(t.Context(), c.worker, c.fence, models.FailYielded)
		require.Error(t, err)
		c.RequireInvariants(t)
	})
}
