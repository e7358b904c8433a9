package history_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// began makes a database as old as that.
func began(t *testing.T, db *bun.DB, age time.Duration) (now time.Time) {
	t.Helper()
	err := db.NewRaw("UPDATE learning SET began_at = clock_timestamp() - make_interval(secs => ?) RETURNING clock_timestamp()",
		age.Seconds()).Scan(t.Context(), &now)
	require.NoError(t, err)
	return now
}

// recordAll runs passes until nothing is missing.
func recordAll(t *testing.T, db *bun.DB) (written int) {
	t.Helper()
	for {
		n, err := (&history.Recorder{DB: db}).Pass(t.Context())
		require.NoError(t, err)
		if written += n; n == 0 {
			return written
		}
	}
}

func count(t *testing.T, db *bun.DB, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, db.NewRaw(query, args...).Scan(t.Context(), &n))
	return n
}

// spread are the rows of ?0 jobs that completed in the hour from ?1 on. Job i waited, and was
// rendered for, i/10 seconds. Every fifth was preempted by a spot worker once.
var spread = []string{
	`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute, queued, running) VALUES (md5('a')::uuid, 'a', 'PRO', 1, 1, 1, 0, 0)`,
	`INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers)
		VALUES (md5('p')::uuid, 'spot', 'p', 'mars', 'h100', 'SPOT', '{}', 0, 1)`,
	`INSERT INTO workers (id, pool_id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, created_at, registered_at)
		VALUES (md5('w')::uuid, md5('p')::uuid, 'p', 'w', 'mars', 'h100', 'SPOT', '{}', 'IDLE', ?1, ?1)`,
	`INSERT INTO pool_prices (pool_id, since, usd) VALUES (md5('p')::uuid, ?1, 3.6)`,
	`CREATE TABLE made AS SELECT i, ?1::timestamptz + make_interval(secs => i * 3600.0 / ?0) AS at,
		overlay(uuid7_floor(?1::timestamptz + make_interval(secs => i * 3600.0 / ?0))::text PLACING '7000-8001-' || lpad(to_hex(i), 12, '0') FROM 15)::uuid AS one,
		overlay(uuid7_floor(?1::timestamptz + make_interval(secs => i * 3600.0 / ?0))::text PLACING '7000-8002-' || lpad(to_hex(i), 12, '0') FROM 15)::uuid AS two,
		overlay(uuid7_floor(?1::timestamptz + make_interval(secs => i * 3600.0 / ?0))::text PLACING '7000-8000-' || lpad(to_hex(i), 12, '0') FROM 15)::uuid AS id
		FROM generate_series(0, ?0 - 1) i`,
	`INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, waited_seconds, leased_seconds, completed_at, created_at)
		SELECT id, md5('a')::uuid, 'video.generate', 'testcard', 'COMPLETED', 'PRO', 'PRO', '{}', 3, 600, 5, i / 10.0, i / 10.0, at, at FROM made`,
	`INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at, started_at, ended_at, failure_class, gpu_seconds, wasted_gpu_seconds)
		SELECT one, id, 1, 1, md5('w')::uuid, gen_random_uuid(), 'RELEASED', at - interval '1 s', at + interval '1 h', at - interval '1 s', at, 'PREEMPTED', 1, 1 FROM made WHERE i % 5 = 0`,
	`INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at, started_at, ended_at, gpu_seconds)
		SELECT two, id, 1, CASE WHEN i % 5 = 0 THEN 2 ELSE 1 END, md5('w')::uuid, gen_random_uuid(), 'SUCCEEDED', at - interval '1 s', at + interval '1 h', at, at, 1 FROM made`,
	`INSERT INTO job_events (job_id, seq, run, attempt_id, type, created_at)
		SELECT id, seq, 1, CASE WHEN seq <= 3 AND i % 5 = 0 THEN one ELSE two END, type, at
		FROM made, (VALUES (1, 'LEASED'), (2, 'RELEASED'), (3, 'REQUEUED'), (4, 'LEASED'), (5, 'STARTED'), (6, 'COMPLETED')) AS e (seq, type)
		WHERE seq > 3 OR i % 5 = 0`,
	`DROP TABLE made`,
}

func fill(t *testing.T, db *bun.DB, n int, from time.Time) {
	t.Helper()
	for _, query := range spread {
		_, err := db.NewRaw(query, n, from).Exec(t.Context())
		require.NoError(t, err)
	}
}

func TestRecorder(t *testing.T) {
	t.Parallel()

	t.Run("SumsMinutesUpToHoursAndKeepsThePercentiles", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		now := began(t, db, 150*time.Minute)
		hour := now.UTC().Truncate(time.Hour).Add(-time.Hour)
		const n = 1000
		fill(t, db, n, hour)

		recordAll(t, db)

		reader := &history.Timeline{DB: db}
		all, err := reader.Series(t.Context(), hour, hour.Add(time.Hour), time.Hour)
		require.NoError(t, err)
		require.Len(t, all, 1)
		f := all[0]
		require.Equal(t, time.Hour, f.Covered)
		require.Equal(t, []int{n, n, n, 0}, []int{f.Submitted(), f.Started(), f.Completed(), f.Failed()})
		for q, want := range map[float64]float64{0.5: 50, 0.95: 95, 0.99: 99} {
			require.InEpsilon(t, want, *f.Wait(q), 0.055)
			require.InEpsilon(t, want, *f.Render(q), 0.055)
		}
		require.Equal(t, []int{n + n/5, n / 5, 0}, []int{f.Attempts(), f.Preempted(), f.Expired()})
		require.InDelta(t, 1.2*n/3600, *f.GPUHours(), 1e-3) // the first began before the hour
		require.InDelta(t, 0.2*n/3600, *f.WastedGPUHours(), 1e-3)
		require.InDelta(t, 1, *f.PaidGPUHours(), 1e-6)
		require.InDelta(t, 3.6, *f.CostPerHour(), 1e-6)
		require.InDelta(t, 3.6/n, *f.CostPerVideo(), 1e-6)
		require.NotNil(t, f.Recovery(0.95))

		// The sum of the minutes says the same.
		minutes, err := reader.Series(t.Context(), hour, hour.Add(time.Hour), time.Minute)
		require.NoError(t, err)
		require.Len(t, minutes, 60)
		var waits models.Histogram
		for _, m := range minutes {
			require.Equal(t, time.Minute, m.Covered)
			for _, j := range m.Jobs {
				waits.Add(j.Waits)
			}
		}
		require.Equal(t, f.Jobs[0].Waits, waits)
		require.Equal(t, n, f.Of(history.Selection{Lane: models.TierPro, Model: "testcard"}).Completed())
		require.Equal(t, 0, f.Of(history.Selection{Lane: models.TierFree}).Completed())
		require.Equal(t, n/5, f.Of(history.Selection{Region: "mars", GPUType: "h100"}).Preempted())
		require.Equal(t, 1, count(t, db, "SELECT count(*) FROM history WHERE seconds = 3600 AND at = ?", hour))
	})

	t.Run("FillsAGapWithoutGauges", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		now := began(t, db, 30*time.Minute)
		recordAll(t, db)
		gap := now.UTC().Truncate(10 * time.Minute).Add(-20 * time.Minute) // the newest minute has gauges
		_, err := db.NewRaw("DELETE FROM history WHERE at >= ? AND at < ?", gap, gap.Add(10*time.Minute)).Exec(t.Context())
		require.NoError(t, err)
		reader := &history.Timeline{DB: db}
		before, err := reader.Series(t.Context(), gap, gap.Add(10*time.Minute), 10*time.Minute)
		require.NoError(t, err)
		require.Zero(t, before[0].Covered)
		require.Nil(t, before[0].CompletedPerMinute(), "a gap is no 0")

		recordAll(t, db)

		require.Equal(t, 11, count(t, db, "SELECT count(*) FROM history WHERE at >= ? AND at < ?", gap, gap.Add(10*time.Minute)),
			"ten minutes, and their sum")

		after, err := reader.Series(t.Context(), gap, gap.Add(10*time.Minute), 10*time.Minute)
		require.NoError(t, err)
		require.Equal(t, 10*time.Minute, after[0].Covered)
		require.Zero(t, *after[0].CompletedPerMinute())
		require.Nil(t, after[0].Queued(), "nobody counted the queue then")
	})

	t.Run("WritesEachSpanOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		now := began(t, db, 25*time.Minute)
		fill(t, db, 60, now.Add(-20*time.Minute))
		pass := func(ctx context.Context) (int, error) { return (&history.Recorder{DB: db}).Pass(ctx) }

		written := jobstest.Together(t, 4, pass)
		written += recordAll(t, db)

		require.Equal(t, count(t, db, "SELECT count(*) FROM history"), written)
		f, err := (&history.Timeline{DB: db}).Window(t.Context(), now.Add(-25*time.Minute), now)
		require.NoError(t, err)
		require.Equal(t, count(t, db, "SELECT count(*) FROM jobs WHERE completed_at < ?", now), f.Completed())
	})

	t.Run("SumsHoursUpToDaysOfUTCAndForgets", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		now := began(t, db, 3*24*time.Hour)
		today := now.UTC().Truncate(24 * time.Hour)
		for _, span := range []struct {
			seconds int
			from    time.Time
		}{{60, now.Add(-50 * time.Hour).Truncate(time.Minute)}, {600, now.Add(-71 * time.Hour).Truncate(10 * time.Minute)},
			{3600, today.Add(-24 * time.Hour)}} {
			_, err := db.NewRaw(`INSERT INTO history (seconds, at, minutes, samples, dead_letters)
				SELECT ?0, at, ?0 / 60, ?0 / 60, ?0 / 20 FROM generate_series(?1, ?2, make_interval(secs => ?0)) AS at`,
				span.seconds, span.from, now.Add(-2*time.Duration(span.seconds)*time.Second)).Exec(t.Context())
			require.NoError(t, err)
		}

		recordAll(t, db)

		days, err := (&history.Timeline{DB: db}).Series(t.Context(), today.Add(-24*time.Hour), today, 24*time.Hour)
		require.NoError(t, err)
		require.Len(t, days, 1)
		require.Equal(t, 24*time.Hour, days[0].Covered)
		require.Equal(t, 24*60, days[0].Samples)
		require.InDelta(t, 3, *days[0].DeadLetters(), 1e-9)
		require.Zero(t, count(t, db, "SELECT count(*) FROM history WHERE seconds = 60 AND at < ?", now.Add(-48*time.Hour)))
	})

	t.Run("ComputesTheHoursOfALongGap", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		now := began(t, db, 52*time.Hour)
		hour := roundUp(now.Add(-51*time.Hour), time.Hour)
		fill(t, db, 100, hour)
		_, err := db.NewRaw(`INSERT INTO history (seconds, at, minutes, samples) SELECT 60, at, 1, 1 FROM generate_series(?0, ?1, interval '1 minute') AS at`,
			now.Add(-48*time.Hour).Truncate(time.Minute), now.Add(-2*time.Minute)).Exec(t.Context())
		require.NoError(t, err)

		recordAll(t, db)

		f, err := (&history.Timeline{DB: db}).Window(t.Context(), hour, hour.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, time.Hour, f.Covered)
		require.Equal(t, 100, f.Completed())
		require.Nil(t, f.Queued())
	})
}

func roundUp(at time.Time, length time.Duration) time.Time {
	return at.UTC().Add(length - 1).Truncate(length)
}

func TestReader(t *testing.T) {
	t.Parallel()

	t.Run("CountsTheMinuteThatIsNotRecordedYet", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		began(t, s.DB, 30*time.Second)
		done, failed := s.Submit(t), s.Submit(t)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		_, err := s.Attempts.ReportProgress(t.Context(), worker, fence,
			lease.ProgressReport{Progress: models.Progress{Percent: 40, Phase: models.PhaseRendering}})
		require.NoError(t, err)
		_, err = s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		_, fence = s.Lease(t, worker)
		o := jobstest.UploadAll(t, s, worker, fence)
		_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &o.Video})
		require.NoError(t, err)
		_, fence = s.Lease(t, worker)
		_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no"})
		require.NoError(t, err)

		now, err := postgres.Now(t.Context(), s.DB)
		require.NoError(t, err)
		f, err := (&history.Timeline{DB: s.DB}).Window(t.Context(), now.Add(-time.Minute), now)

		require.NoError(t, err)
		require.Equal(t, []int{2, 2, 1, 0}, []int{f.Submitted(), f.Started(), f.Completed(), f.Failed()}, "%s %s", done.ID, failed.ID)
		require.Equal(t, map[models.FailureClass]int{models.FailInvalidInput: 1}, f.Failures())
		require.Equal(t, []int{3, 1}, []int{f.Attempts(), f.Preempted()})
		require.NotNil(t, f.Wait(0.95))
		require.NotNil(t, f.Pickup(0.99))
		require.Nil(t, f.Queued(), "no gauge was read")
	})

	t.Run("KnowsNothingOfTheTimeBeforeItBegan", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		now := began(t, db, 10*time.Minute)

		f, err := (&history.Timeline{DB: db}).Window(t.Context(), now.Add(-time.Hour), now)

		require.NoError(t, err)
		require.Zero(t, f.Covered)
		for _, m := range history.Metrics {
			require.Nil(t, m.Of(f), m.Name)
		}
	})

	t.Run("RefusesSeriesThatAreTooLong", func(t *testing.T) {
		t.Parallel()
		reader := &history.Timeline{DB: modelstest.DB(t)}
		now := time.Now()

		_, tooLong := reader.Series(t.Context(), now.Add(-48*time.Hour), now, time.Minute)
		_, odd := reader.Series(t.Context(), now.Add(-time.Hour), now, 7*time.Minute)
		_, empty := reader.Series(t.Context(), now, now.Add(-time.Hour), time.Minute)

		for _, err := range []error{tooLong, odd, empty} {
			require.ErrorAs(t, err, new(*apierror.Error))
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	t.Run("HaveDifferentNames", func(t *testing.T) {
		t.Parallel()
		var names []string
		for _, m := range history.Metrics {
			names = append(names, string(m.Name))
		}
		slices.Sort(names)
		require.Equal(t, slices.Compact(slices.Clone(names)), names)
	})
}
