package upkeep_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// review runs the review of all artifacts.
func review(t *testing.T, s *jobstest.Stack) int {
	t.Helper()
	s.Exec(t, "UPDATE artifacts SET review_at = '-infinity'")
	n, err := s.Upkeep.ReviewArtifacts(t.Context())
	require.NoError(t, err)
	s.RequireInvariants(t)
	return n
}

func TestReviewArtifacts(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheNewestTwoCheckpointsOfALiveJob", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		var made []models.ArtifactID
		for step := range 4 {
			id, _ := jobstest.Checkpoint(t, s, worker, fence, step)
			made = append(made, id)
		}
		jobstest.Age(t, s, "16 minutes")

		removed := review(t, s)

		left := jobstest.Artifacts(t, s, job.ID)
		require.Equal(t, 2, removed)
		require.Len(t, left, 2)
		require.Contains(t, left, made[2])
		require.Contains(t, left, made[3])
		require.Equal(t, made[3], s.Reload(t, job.ID).LatestCheckpointID)
		_, err := s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []string{left[made[2]].ObjectKey, left[made[3]].ObjectKey}, jobstest.Stored(t, s))
	})

	t.Run("KeepsASupersededCheckpointForAWhile", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		first, _ := jobstest.Checkpoint(t, s, worker, fence, 1)
		jobstest.Checkpoint(t, s, worker, fence, 2)
		jobstest.Age(t, s, "10 hours")
		third, _ := jobstest.Checkpoint(t, s, worker, fence, 3)

		require.Zero(t, review(t, s))

		left := jobstest.Artifacts(t, s, job.ID)
		require.Len(t, left, 3)
		require.True(t, left[first].ExpiresAt.Equal(left[third].CreatedAt.Add(15*time.Minute)))
		require.True(t, left[third].ExpiresAt.IsZero())
	})

	t.Run("KeepsTheNewestPreview", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		for _, picture := range []string{"first", "second"} {
			object := s.Upload(t, worker, fence, models.ArtifactPreview, []byte(picture))
			_, err := s.Attempts.CommitArtifact(t.Context(), worker, fence, models.ArtifactPreview, object)
			require.NoError(t, err)
		}
		newest := s.Reload(t, job.ID).PreviewID
		jobstest.Age(t, s, "10 hours")

		require.Equal(t, 1, review(t, s))

		left := jobstest.Artifacts(t, s, job.ID)
		require.Len(t, left, 1)
		require.True(t, left[newest].ExpiresAt.IsZero())
	})

	t.Run("RemovesRejectedCheckpointsAndKeepsTwoOthers", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		first, _ := jobstest.Checkpoint(t, s, worker, fence, 1)
		second, _ := jobstest.Checkpoint(t, s, worker, fence, 2)
		third, _ := jobstest.Checkpoint(t, s, worker, fence, 3)
		_, err := s.Attempts.RejectCheckpoint(t.Context(), worker, fence, third, "torn")
		require.NoError(t, err)
		jobstest.Age(t, s, "1 hour")

		require.Equal(t, 1, review(t, s))

		left := jobstest.Artifacts(t, s, job.ID)
		require.Len(t, left, 2)
		require.Contains(t, left, first)
		require.Contains(t, left, second)
	})

	t.Run("RemovesCheckpointsOfACompletedJobAndSetsItsVideosExpiry", func(t *testing.T) {
		t.Parallel()

		s, job := jobstest.Completed(t)

		require.Equal(t, 1, review(t, s))

		for _, a := range jobstest.Artifacts(t, s, job.ID) {
			require.NotEqual(t, models.ArtifactCheckpoint, a.Type)
			require.True(t, a.ExpiresAt.Equal(job.CompletedAt.Add(30*24*time.Hour)), a.Type)
		}
		require.Empty(t, s.Reload(t, job.ID).LatestCheckpointID)
	})

	t.Run("RemovesVideosAndLogsAfterTheirRetention", func(t *testing.T) {
		t.Parallel()

		s, job := jobstest.Completed(t)
		jobstest.Age(t, s, "29 days")
		review(t, s)
		require.Len(t, jobstest.Artifacts(t, s, job.ID), 2)
		jobstest.Age(t, s, "25 hours")

		require.Equal(t, 2, review(t, s))

		require.Empty(t, jobstest.Artifacts(t, s, job.ID))
		require.Empty(t, s.Reload(t, job.ID).ResultID)
		attempts, err := models.ListAttempts(t.Context(), s.DB, []models.JobID{job.ID})
		require.NoError(t, err)
		require.Empty(t, attempts[0].LogID)
	})

	t.Run("KeepsCheckpointsOfAFailedJobForADay", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		jobstest.Checkpoint(t, s, worker, fence, 1)
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy})
		require.NoError(t, err)
		jobstest.Age(t, s, "23 hours")
		require.Zero(t, review(t, s))
		require.NotEmpty(t, s.Reload(t, job.ID).LatestCheckpointID)
		jobstest.Age(t, s, "2 hours")

		require.Equal(t, 1, review(t, s))

		require.Empty(t, s.Reload(t, job.ID).LatestCheckpointID)
	})

	t.Run("KeepsTheLogOfAnUnfinishedJob", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		log := s.Upload(t, worker, fence, models.ArtifactLog, []byte("a log"))
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTransient, Log: &log})
		require.NoError(t, err)
		jobstest.Age(t, s, "400 days")

		require.Zero(t, review(t, s))

		require.Equal(t, models.JobScheduled, s.Reload(t, job.ID).Status)
		require.Len(t, jobstest.Artifacts(t, s, job.ID), 1)
	})

	t.Run("SkipsALockedJob", func(t *testing.T) {
		t.Parallel()

		s, job := jobstest.Completed(t)
		err := s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := models.LockJob(ctx, tx, job.ID)
			require.NoError(t, err)

			n, err := s.Upkeep.ReviewArtifacts(ctx)

			require.Zero(t, n)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 1, review(t, s))
	})

	t.Run("PreventsACommitOfARemovedObject", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, first := jobstest.Checkpoint(t, s, worker, fence, 1)
		jobstest.Checkpoint(t, s, worker, fence, 2)
		jobstest.Checkpoint(t, s, worker, fence, 3)
		jobstest.Age(t, s, "1 hour")
		// The removal happens between the check of the store and the commit.
		bent := &jobstest.BentStore{Objects: s.Objects}
		bent.OnStat = func() {
			bent.OnStat = nil
			require.Equal(t, 1, review(t, s))
		}
		s.Attempts.Objects = bent

		_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, first)

		jobstest.RequireCode(t, err, apierror.CodeChecksumMismatch)
		require.Len(t, jobstest.Artifacts(t, s, job.ID), 2)
		s.RequireInvariants(t)
		_, err = s.Attempts.CommitCheckpoint(t.Context(), worker, fence, first)
		jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
	})
}

func TestForgetUploads(t *testing.T) {
	t.Parallel()

	t.Run("RemovesUncommittedUploadsADayAfterTheAttempt", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, committed := jobstest.Checkpoint(t, s, worker, fence, 1)
		unused := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("never committed"))
		jobstest.Age(t, s, "2 days")
		n, err := s.Upkeep.ForgetUploads(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "its attempt still lives")
		_, err = s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		n, err = s.Upkeep.ForgetUploads(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "its attempt has just ended")
		jobstest.Age(t, s, "25 hours")

		n, err = s.Upkeep.ForgetUploads(t.Context())
		require.NoError(t, err)
		_, err = s.Upkeep.DeleteObjects(t.Context())

		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Zero(t, s.Count(t, "uploads"))
		require.Equal(t, []string{committed.Object.ObjectKey}, jobstest.Stored(t, s))
		require.NotContains(t, jobstest.Stored(t, s), unused.ObjectKey)
		require.Len(t, jobstest.Artifacts(t, s, job.ID), 1)
	})
}

func TestForgetJobs(t *testing.T) {
	t.Parallel()

	t.Run("RemovesEverythingOfAJobThatEndedLongAgo", func(t *testing.T) {
		t.Parallel()

		s, old := jobstest.SecretJob(t)
		worker := s.Worker(t, "two")
		younger := s.Submit(t)
		_, fence := s.Lease(t, worker)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		waiting := s.Submit(t)
		s.Exec(t, "INSERT INTO job_dependencies (job_id, depends_on) VALUES (?, ?)", waiting.ID, old.ID)
		jobstest.Age(t, s, "179 days")
		n, err := s.Upkeep.ForgetJobs(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
		s.Exec(t, "UPDATE jobs SET completed_at = completed_at - interval '25 hours' WHERE id = ?", old.ID)

		n, err = s.Upkeep.ForgetJobs(t.Context())
		require.NoError(t, err)
		_, err = s.Upkeep.DeleteObjects(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, []string{video.ObjectKey}, jobstest.Stored(t, s))
		var tables []string
		require.NoError(t, s.DB.NewRaw(`SELECT c.table_name FROM information_schema.columns c
			JOIN information_schema.tables t USING (table_schema, table_name)
			WHERE c.table_schema = 'public' AND c.column_name = 'job_id' AND t.table_type = 'BASE TABLE'`).Scan(t.Context(), &tables))
		require.Greater(t, len(tables), 7)
		for _, table := range append(tables, "jobs") {
			if table == "ledger" {
				continue // what the job cost stays, without what it was
			}
			column := "job_id"
			if table == "jobs" {
				column = "id"
			}
			var left int
			require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM ? WHERE ? = ?", bun.Ident(table), bun.Ident(column), old.ID).Scan(t.Context(),
				&left))
			require.Zero(t, left, table)
		}
		require.Equal(t, models.JobCompleted, s.Reload(t, younger.ID).Status)
		require.Equal(t, models.JobQueued, s.Reload(t, waiting.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("FreesTheIdempotencyKey", func(t *testing.T) {
		t.Parallel()

		s, in := jobstest.New(t), jobstest.Submission()
		in.IdempotencyKey = new("k")
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, first.ID)
		require.NoError(t, err)
		jobstest.Age(t, s, "179 days")
		n, err := s.Upkeep.ForgetJobs(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
		same, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, same.ID)
		jobstest.Age(t, s, "2 days")
		n, err = s.Upkeep.ForgetJobs(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)

		again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)

		require.NoError(t, err)
		require.False(t, deduplicated)
		require.NotEqual(t, first.ID, again.ID)
		s.RequireInvariants(t)
	})

	t.Run("RemovesEachJobOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, `INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds,
				estimated_gpu_seconds, failure_class, completed_at)
			SELECT gen_random_uuid(), ?, 'video.generate', 'testcard', 'FAILED', 'PRO', 'PRO', '{}', 3, 600, 5, 'TRANSIENT',
				now() - interval '181 days' FROM generate_series(1, 350)`, s.Account.ID)

		total := jobstest.Together(t, 3, s.Upkeep.ForgetJobs)

		require.Equal(t, 350, total)
		require.Zero(t, s.Count(t, "jobs"))
	})
}

func TestForgetRest(t *testing.T) {
	t.Parallel()

	t.Run("RemovesOnlyUnpublishableHintsFromTheOutbox", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		s.Exec(t, "UPDATE outbox SET created_at = now() - interval '25 hours'")
		s.Exec(t, "INSERT INTO outbox (kind, payload, created_at) VALUES ('webhook', '{}', now() - interval '25 hours')")
		s.Submit(t)

		n, err := s.Upkeep.ForgetRest(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, 2, s.Count(t, "outbox"))
	})

	t.Run("RemovesOldWebhooksWithoutOpenDeliveries", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		r := jobstest.NewReceiver(t)
		jobstest.Hook(t, s, r)
		told, untold := jobstest.CancelledJob(t, s), jobstest.CancelledJob(t, s)
		jobstest.Deliver(t, s)
		s.Exec(t, "UPDATE webhook_events SET created_at = now() - interval '31 days'")
		s.Exec(t, "UPDATE webhook_deliveries SET state = 'PENDING', delivered_at = NULL, next_attempt_at = now() WHERE job_id = ?", untold.ID)
		fresh := jobstest.CancelledJob(t, s)

		n, err := s.Upkeep.ForgetRest(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Empty(t, jobstest.Deliveries(t, s, told.ID))
		require.Len(t, append(jobstest.Deliveries(t, s, untold.ID), jobstest.Deliveries(t, s, fresh.ID)...), 2)
		require.Equal(t, 1, s.Count(t, "webhook_tries"))
	})

	t.Run("KeepsTheNewestDecisionsOfEachPool", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, name := range []string{"busy", "calm"} {
			s.Exec(t, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers)
				VALUES (gen_random_uuid(), ?, 'p', 'r', 'g', 'SPOT', '{}', 0, 1)`, name)
		}
		s.Exec(t, `INSERT INTO scaling_decisions (pool_id, at, from_count, to_count, reason, inputs)
			SELECT p.id, now() - make_interval(days => 31), 0, 1, '', '{}' FROM pools p, generate_series(1, CASE name WHEN 'busy' THEN 1600 ELSE 900 END)`)

		n, err := s.Upkeep.ForgetRest(t.Context())

		require.NoError(t, err)
		require.Equal(t, 600, n)
		require.Equal(t, 1900, s.Count(t, "scaling_decisions"))
	})

	t.Run("ClosesTheLedgerOfDeletedPoolsAndRemovesOldMachines", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for name, deleted := range map[string]any{"lives": nil, "just deleted": "1 day", "deleted": "3 days"} {
			s.Exec(t, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, deleted_at)
				VALUES (md5(?0)::uuid, ?0, 'p', 'r', 'g', 'SPOT', '{}', 0, 1, now() - ?1::interval)`, name, deleted)
			s.Exec(t, "INSERT INTO machines (pool_id, provider, instance_id, workers, created_at) VALUES (md5(?0)::uuid, 'p', ?0, 1, now() - interval '4 days')", name)
		}
		s.Exec(t, `INSERT INTO machines (pool_id, provider, instance_id, workers, created_at, gone_at, billed_until)
			VALUES (md5('lives')::uuid, 'p', 'old', 1, now() - interval '100 days', now() - interval '95 days', now() - interval '95 days')`)

		n, err := s.Upkeep.ForgetRest(t.Context())

		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, 3, s.Count(t, "machines"))
		var closed string
		require.NoError(t, s.DB.NewRaw("SELECT instance_id FROM machines WHERE gone_at IS NOT NULL").Scan(t.Context(), &closed))
		require.Equal(t, "deleted", closed, "the scaler no longer compares its pool with the provider")
	})

	t.Run("RemovesWorkersWithoutAttempts", func(t *testing.T) {
		t.Parallel()

		s, _ := jobstest.Completed(t)
		lost, ended, back := s.Worker(t, "lost"), s.Worker(t, "ended"), s.Worker(t, "back")
		s.Exec(t, "UPDATE workers SET status = 'LOST', lost_at = now() - interval '181 days' WHERE id = ?", lost.WorkerID)
		s.Exec(t, "UPDATE workers SET status = 'TERMINATED', token_hash = NULL, ended_at = now() - interval '181 days' WHERE id IN (?) OR provider_instance_id = 'one'", ended.WorkerID)
		s.Exec(t, "UPDATE workers SET lost_at = now() - interval '181 days' WHERE id = ?", back.WorkerID)

		n, err := s.Upkeep.ForgetRest(t.Context())

		require.NoError(t, err)
		require.Equal(t, 2, n)
		left, err := models.GetWorkers(t.Context(), s.DB, []models.WorkerID{lost.WorkerID, ended.WorkerID, back.WorkerID})
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Equal(t, back.WorkerID, left[0].ID)
		require.Equal(t, 2, s.Count(t, "workers"), "an attempt refers to the worker that made the video")
	})
}
