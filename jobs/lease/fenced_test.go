package lease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// inOneBatch runs calls about leases in one transaction, in their order, once all of them wait
// for it. It calls then before the transaction begins.
func inOneBatch(t *testing.T, s *jobstest.Stack, then func(), calls ...func() error) []error {
	t.Helper()
	waiting, run := lease.BatchTogether(s.Attempts)
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { errs[i] = call() })
		testrun.Eventually(t, "the call waits for the lock", func() bool { return waiting() == i+1 })
	}
	if then != nil {
		then()
	}
	run()
	all.Wait()
	return errs
}

// reporting returns a call that reports progress.
func reporting(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, percent float64) func() error {
	return func() error {
		_, err := s.Attempts.ReportProgress(t.Context(), p, f,
			lease.ProgressReport{Progress: models.Progress{Phase: models.PhaseRendering, Percent: percent}})
		return err
	}
}

// committing returns a call that commits a checkpoint.
func committing(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, o jobs.UploadedObject, step int) func() error {
	return func() error {
		_, err := s.Attempts.CommitCheckpoint(t.Context(), p, f, jobs.Checkpoint{Object: o, Step: step, Percent: float64(step)})
		return err
	}
}

// requesting returns a call that requests the key of a checkpoint.
func requesting(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence) func() error {
	return func() error {
		_, _, err := s.Attempts.RequestUpload(t.Context(), p, f, lease.UploadRequest{
			Type: models.ArtifactCheckpoint, ContentType: "application/octet-stream", SizeBytes: 1, Checksum: jobstest.Checksum([]byte("1")),
		})
		return err
	}
}

func TestCallsInOneBatch(t *testing.T) {
	t.Parallel()

	t.Run("ReturnTheSameResultIfAnAttemptIsEndedTwice", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		complete := func() error {
			_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
			return err
		}
		release := func() error {
			_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
			return err
		}

		errs := inOneBatch(t, s, nil, complete, complete, release)

		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		require.ErrorIs(t, errs[2], apierror.ErrLeaseLost)
		require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
		held, err := s.Reads.Fleet.Worker(t.Context(), worker.WorkerID)
		require.NoError(t, err)
		require.Equal(t, 1, held.JobsCompleted)
		s.RequireInvariants(t)
	})

	t.Run("ReturnTheSameResultIfACancelledJobIsReleasedTwice", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		release := func() error {
			released, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
			if err == nil && released.Status != models.JobCancelled {
				return fmt.Errorf("the job is %s", released.Status)
			}
			return err
		}

		for _, err := range inOneBatch(t, s, nil, release, release) {
			require.NoError(t, err)
		}

		s.RequireInvariants(t)
	})

	t.Run("AreRefusedIndividually", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		s.Submit(t)
		other := s.Worker(t, "two")
		granted, theirs := s.Lease(t, other)

		errs := inOneBatch(t, s, nil,
			reporting(t, s, worker, lease.Fence{AttemptID: fence.AttemptID, Token: models.NewFencingToken()}, 90),
			reporting(t, s, worker, fence, 10),
			reporting(t, s, worker, theirs, 90),
			requesting(t, s, worker, lease.Fence{AttemptID: fence.AttemptID, Token: theirs.Token}),
			reporting(t, s, other, theirs, 20))

		require.ErrorIs(t, errs[0], apierror.ErrLeaseLost)
		require.NoError(t, errs[1])
		jobstest.RequireCode(t, errs[2], apierror.CodeNotFound)
		require.ErrorIs(t, errs[3], apierror.ErrLeaseLost)
		require.NoError(t, errs[4])
		require.Equal(t, 10.0, s.Reload(t, job.ID).Progress.Percent)
		require.Equal(t, 20.0, s.Reload(t, granted.Job.ID).Progress.Percent)
		require.Zero(t, s.Count(t, "uploads"))
		s.RequireInvariants(t)
	})

	t.Run("RunOnceEvenIfTheReasonOfARefusalCannotBeRead", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		// From the commit on, attempts cannot be read.
		s.Exec(t, `CREATE FUNCTION blind() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN ALTER TABLE job_attempts RENAME COLUMN log_id TO hidden; RETURN NULL; END $$`)
		s.Exec(t, "CREATE CONSTRAINT TRIGGER blind AFTER INSERT ON uploads DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION blind()")

		errs := inOneBatch(t, s, nil,
			requesting(t, s, worker, fence),
			requesting(t, s, worker, lease.Fence{AttemptID: fence.AttemptID, Token: models.NewFencingToken()}))

		require.NoError(t, errs[0])
		require.ErrorContains(t, errs[1], "read the attempt")
		require.Equal(t, 1, s.Count(t, "uploads"))
		require.Equal(t, models.JobRunning, s.Reload(t, job.ID).Status)
	})

	t.Run("CommitACheckpointOnce", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		first := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("one"))
		second := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("two"))

		for _, err := range inOneBatch(t, s, nil,
			committing(t, s, worker, fence, first, 1), committing(t, s, worker, fence, second, 2), committing(t, s, worker, fence, first, 1),
			requesting(t, s, worker, fence), reporting(t, s, worker, fence, 33)) {
			require.NoError(t, err)
		}

		kept, err := models.ListCheckpoints(t.Context(), s.DB, job.ID, 9)
		require.NoError(t, err)
		require.Len(t, kept, 2)
		after := s.Reload(t, job.ID)
		require.Equal(t, kept[0].ID, after.LatestCheckpointID)
		require.Equal(t, 2, *kept[0].Step)
		require.Equal(t, 33.0, after.Progress.Percent)
		require.Equal(t, 3, s.Count(t, "uploads"))
		var told int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM job_events WHERE type = 'CHECKPOINTED'").Scan(t.Context(), &told))
		require.Equal(t, 2, told)
		s.RequireInvariants(t)
	})

	t.Run("GetUploadKeysUpToTheAttemptsLimit", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		s.Exec(t, "UPDATE job_attempts SET uploads = 7998 WHERE id = ?", fence.AttemptID)

		errs := inOneBatch(t, s, nil, requesting(t, s, worker, fence), requesting(t, s, worker, fence), requesting(t, s, worker, fence),
			reporting(t, s, worker, fence, 5))

		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		jobstest.RequireCode(t, errs[2], apierror.CodeConflict)
		require.NoError(t, errs[3])
		jobstest.RequireCode(t, requesting(t, s, worker, fence)(), apierror.CodeConflict)
		require.Equal(t, 2, s.Count(t, "uploads"))
		attempt, err := models.GetAttempt(t.Context(), s.DB, fence.AttemptID)
		require.NoError(t, err)
		require.Equal(t, 8000, attempt.Uploads)
	})

	t.Run("DoNotCommitObjectsThatWereDeletedMeanwhile", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		gone := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("one"))
		there := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("two"))

		errs := inOneBatch(t, s, func() { s.Exec(t, "DELETE FROM uploads WHERE object_key = ?", gone.ObjectKey) },
			committing(t, s, worker, fence, gone, 1), committing(t, s, worker, fence, there, 2))

		jobstest.RequireCode(t, errs[0], apierror.CodeChecksumMismatch)
		require.NoError(t, errs[1])
		kept, err := models.ListCheckpoints(t.Context(), s.DB, job.ID, 9)
		require.NoError(t, err)
		require.Len(t, kept, 1)
		require.Equal(t, there.ObjectKey, kept[0].ObjectKey)
		s.RequireInvariants(t)
	})

	t.Run("WaitForAKeyThatAnotherTransactionDeletes", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		o := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("one"))
		var done sync.WaitGroup
		var committed error

		err := s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewRaw("DELETE FROM uploads WHERE object_key = ?", o.ObjectKey).Exec(ctx)
			require.NoError(t, err)
			done.Go(func() { committed = committing(t, s, worker, fence, o, 1)() })
			s.WaitForLocks(t, 1)
			return nil
		})
		require.NoError(t, err)
		done.Wait()

		jobstest.RequireCode(t, committed, apierror.CodeChecksumMismatch)
		require.Zero(t, s.Count(t, "artifacts"))
	})

	t.Run("DoNotFailIfOneOfThemFails", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		s.Submit(t)
		other := s.Worker(t, "two")
		lease, theirs := s.Lease(t, other)
		// A trigger skips the update of the other attempt, so its row is not found.
		s.Exec(t, fmt.Sprintf(`CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN IF NEW.id = '%s' THEN RETURN NULL; END IF; RETURN NEW; END $$`, string(theirs.AttemptID)[len("att_"):]))
		s.Exec(t, "CREATE TRIGGER skip BEFORE UPDATE ON job_attempts FOR EACH ROW EXECUTE FUNCTION skip()")
		before := s.Reload(t, lease.Job.ID)

		errs := inOneBatch(t, s, nil, reporting(t, s, worker, fence, 10), requesting(t, s, other, theirs), requesting(t, s, worker, fence))

		require.NoError(t, errs[0])
		require.Error(t, errs[1])
		require.NoError(t, errs[2])
		require.Equal(t, 10.0, s.Reload(t, job.ID).Progress.Percent)
		require.Equal(t, before, s.Reload(t, lease.Job.ID))
		require.Equal(t, 1, s.Count(t, "uploads"))
	})

	t.Run("OfManyWorkersAreAllWritten", func(t *testing.T) {
		t.Parallel()

		const workers, steps = 8, 4
		s := jobstest.New(t)
		var all sync.WaitGroup
		errs := make([]error, workers)
		for i := range workers {
			s.Submit(t)
			worker := s.Worker(t, fmt.Sprint(i))
			_, fence := s.Lease(t, worker)
			objects := make([]jobs.UploadedObject, steps)
			for step := range objects {
				objects[step] = s.Upload(t, worker, fence, models.ArtifactCheckpoint, fmt.Append(nil, i, step))
			}
			all.Go(func() {
				for step, o := range objects {
					for _, call := range []func() error{
						committing(t, s, worker, fence, o, step+1), requesting(t, s, worker, fence), reporting(t, s, worker, fence, float64(step)),
						committing(t, s, worker, fence, o, step+1),
					} {
						if errs[i] = call(); errs[i] != nil {
							return
						}
					}
				}
			})
		}

		all.Wait()

		for _, err := range errs {
			require.NoError(t, err)
		}
		var wrong []models.JobID
		require.NoError(t, s.DB.NewRaw(`
			SELECT j.id FROM jobs j JOIN job_attempts a ON a.job_id = j.id JOIN artifacts newest ON newest.id = j.latest_checkpoint_id
			WHERE newest.step <> ?0 OR a.checkpoint_id <> newest.id OR a.uploads <> 2 * ?0
				OR a.uploads <> (SELECT count(*) FROM uploads WHERE attempt_id = a.id)
				OR ?0 <> (SELECT count(*) FROM artifacts WHERE job_id = j.id)
				OR ?0 <> (SELECT count(*) FROM job_events WHERE job_id = j.id AND type = 'CHECKPOINTED')`, steps).Scan(t.Context(), &wrong))
		require.Empty(t, wrong)
		require.Equal(t, workers*steps, s.Count(t, "artifacts"))
		s.RequireInvariants(t)
	})
}
