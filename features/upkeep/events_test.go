package upkeep_test

import (
	"context"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// oldMonth makes the partition of a month that began that many months ago, and returns its
// name and a job of it with an event.
func oldMonth(t *testing.T, s *jobstest.Stack, months int) (name string, job models.JobID) {
	t.Helper()
	require.NoError(t, s.DB.NewRaw(`SELECT 'job_events_' || to_char(date_trunc('month', now() AT TIME ZONE 'UTC') - make_interval(months => ?), 'YYYY_MM')`,
		months).Scan(t.Context(), &name))
	var low, high string
	require.NoError(t, s.DB.NewRaw(`
		SELECT uuid7_floor(m AT TIME ZONE 'UTC'), uuid7_floor((m + interval '1 month') AT TIME ZONE 'UTC')
		FROM (SELECT date_trunc('month', now() AT TIME ZONE 'UTC') - make_interval(months => ?) AS m) t`, months).Scan(t.Context(), &low, &high))
	s.Exec(t, "CREATE TABLE ? PARTITION OF job_events FOR VALUES FROM (?) TO (?)", bun.Ident(name), low, high)
	return name, oldJob(t, s, low)
}

// oldJob makes a job with an event that ended within an hour of the time in its UUIDv7.
func oldJob(t *testing.T, s *jobstest.Stack, at string) models.JobID {
	t.Helper()
	var id models.JobID
	require.NoError(t, s.DB.NewRaw(`
		INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds,
			estimated_gpu_seconds, failure_class, created_at, completed_at)
		SELECT ?0::uuid, ?1, 'video.generate', 'testcard', 'FAILED', 'PRO', 'PRO', '{}', 3, 600, 5, 'TRANSIENT', at, at + interval '1 hour'
		FROM (SELECT to_timestamp(('x' || left(replace(?0, '-', ''), 12))::bit(48)::bigint / 1000.0) AS at) t RETURNING id`,
		at, s.Account.ID).Scan(t.Context(), &id))
	s.Exec(t, "INSERT INTO job_events (job_id, seq, run, type) VALUES (?, 1, 1, 'FAILED')", id)
	return id
}

func TestKeepEvents(t *testing.T) {
	t.Parallel()

	partitions := func(t *testing.T, s *jobstest.Stack) (names []string) {
		t.Helper()
		require.NoError(t, s.DB.NewRaw("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'job_events'::regclass").Scan(t.Context(), &names))
		return names
	}

	t.Run("DropsAMonthIfAllItsJobsEndedLongAgo", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		old, job := oldMonth(t, s, 6)
		recent, _ := oldMonth(t, s, 2)

		n, err := s.Upkeep.KeepEvents(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NotContains(t, partitions(t, s), old)
		require.Contains(t, partitions(t, s), recent)
		require.Equal(t, models.JobFailed, s.Reload(t, job).Status)
		pages, err := s.Edges(t, job).Events(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Empty(t, pages[job].Items)
	})

	t.Run("KeepsAMonthThatOneJobStillNeeds", func(t *testing.T) {
		t.Parallel()

		for name, change := range map[string]string{
			"it is still running": "UPDATE jobs SET status = 'QUEUED', completed_at = NULL, queued_at = now() WHERE id = ?",
			"it ended recently":   "UPDATE jobs SET completed_at = now() - interval '89 days' WHERE id = ?",
			"it ended by itself":  "UPDATE jobs SET completed_at = now() - interval '1 minute', created_at = completed_at - interval '25 hours' WHERE id = ?",
		} {
			s := jobstest.New(t)
			old, job := oldMonth(t, s, 6)
			s.Exec(t, change, job)

			_, err := s.Upkeep.KeepEvents(t.Context())

			require.NoError(t, err, name)
			require.Contains(t, partitions(t, s), old, name)
		}
	})

	t.Run("DoesNotWaitForWriters", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		old, job := oldMonth(t, s, 6)
		err := s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewRaw("UPDATE job_events SET run = 1 WHERE job_id = ?", job).Exec(ctx)
			require.NoError(t, err)

			n, err := s.Upkeep.KeepEvents(ctx)

			require.Zero(t, n)
			return err
		})
		require.NoError(t, err)
		require.Contains(t, partitions(t, s), old)
	})

	t.Run("RemovesOldEventsFromTheDefaultPartition", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var months []string
		require.NoError(t, s.DB.NewRaw("SELECT uuid7_floor(now() - make_interval(days => d)) FROM unnest(ARRAY[200, 201, 40]) d").Scan(t.Context(), &months))
		over, waiting, recent := oldJob(t, s, months[0]), oldJob(t, s, months[1]), oldJob(t, s, months[2])
		s.Exec(t, "UPDATE jobs SET status = 'QUEUED', completed_at = NULL WHERE id = ?", waiting)

		n, err := s.Upkeep.KeepEvents(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		for id, left := range map[models.JobID]int{over: 0, waiting: 1, recent: 1} {
			events, err := models.ListJobEvents(t.Context(), s.DB, id, 0, 10)
			require.NoError(t, err)
			require.Len(t, events, left)
		}
	})

	t.Run("RunsOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		old, _ := oldMonth(t, s, 6)

		dropped := jobstest.Together(t, 3, s.Upkeep.KeepEvents)
		again, err := s.Upkeep.KeepEvents(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, dropped+again)
		require.NotContains(t, partitions(t, s), old)
	})
}
