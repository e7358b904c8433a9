package costs_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestMain(m *testing.M) { modelstest.Main(m.Run) }

// begin is when the first attempts of the tests begin.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func exec(t *testing.T, db bun.IDB, statement string, args ...any) {
	t.Helper()
	_, err := db.NewRaw(statement, args...).Exec(t.Context())
	require.NoError(t, err)
}

// fixture makes an account, a job, and a worker of a pool whose price is $3.6 an hour, and $7.2 from the second 100 on.
func fixture(t *testing.T) *bun.DB {
	t.Helper()
	db := modelstest.DB(t)
	exec(t, db, `INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute) VALUES (md5('a')::uuid, 'a', 'PRO', 9, 9, 9)`)
	exec(t, db, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, workers_per_machine, price_per_hour_usd)
		SELECT md5(name)::uuid, name, 'cloud', 'mars', 'h100', 'SPOT', '{}', 0, 9, 1, price FROM (VALUES ('spot', 7.2), ('free', 0)) AS p (name, price)`)
	exec(t, db, `INSERT INTO pool_prices (pool_id, since, usd) VALUES (md5('spot')::uuid, ?0, 3.6), (md5('spot')::uuid, ?1, 7.2)`,
		begin.Add(-time.Hour), begin.Add(100*time.Second))
	exec(t, db, `INSERT INTO workers (id, pool_id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, registered_at)
		SELECT md5('w' || name)::uuid, id, 'cloud', name, 'mars', 'h100', 'SPOT', '{}', 'IDLE', ? FROM pools`, begin.Add(-time.Hour))
	exec(t, db, `INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, queued_at, user_id)
		VALUES (md5('j')::uuid, md5('a')::uuid, 'video.generate', 'testcard', 'QUEUED', 'PRO', 'PRO', '{}', 3, 600, 5, now(), 'ann')`)
	return db
}

// attempt runs an attempt of the job on the worker of a pool, from a second to another; it ends the job with this status.
func attempt(t *testing.T, db *bun.DB, name, pool string, from, to, silent, wasted int, job models.JobStatus) {
	t.Helper()
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	exec(t, db, `INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at)
		SELECT md5(?0)::uuid, md5('j')::uuid, (SELECT run FROM jobs), 1 + count(*), md5('w' || ?1)::uuid, gen_random_uuid(), 'RUNNING', ?2, ?2 FROM job_attempts`,
		name, pool, at(from))
	exec(t, db, "UPDATE job_attempts SET last_heartbeat_at = ?1 WHERE id = md5(?0)::uuid", name, at(from+1)) // no entry
	exec(t, db, `WITH ended AS (
			UPDATE job_attempts SET status = 'LOST', failure_class = 'WORKER_LOST', ended_at = ?1, gpu_seconds = ?2, wasted_gpu_seconds = ?3
			WHERE id = md5(?0)::uuid)
		UPDATE jobs SET status = ?4, completed_at = CASE WHEN ?4 <> 'QUEUED' THEN clock_timestamp() END, failure_class = CASE ?4 WHEN 'FAILED' THEN 'POISON' END,
			queued_at = clock_timestamp() WHERE id = md5('j')::uuid`, name, at(to+silent), to-from, wasted, job)
}

// ofJob returns the sum of what the ledger has for the job.
func ofJob(t *testing.T, db *bun.DB) costs.Cost {
	t.Helper()
	var id models.JobID
	require.NoError(t, db.NewRaw("SELECT md5('j')::uuid").Scan(t.Context(), &id))
	rows, err := costs.OfJobs(t.Context(), db, []models.JobID{id})
	require.NoError(t, err)
	all := costs.Nothing()
	for _, row := range rows {
		all.Add(&row.Cost)
	}
	return all
}

func same(t *testing.T, want string, got *decimal.Decimal) {
	t.Helper()
	require.NotNil(t, got)
	require.True(t, decimal.RequireFromString(want).Equal(*got), "want %s, got %s", want, got)
}

func TestLedger(t *testing.T) {
	t.Parallel()

	t.Run("EntersAnAttemptWhenItEndsAtThePricesOfItsTime", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)

		attempt(t, db, "first", "spot", 0, 150, 20, 30, models.JobQueued) // useful to 120, wasted to 170

		got := ofJob(t, db)
		require.InDelta(t, 120, got.UsefulSeconds, 0.001)
		require.InDelta(t, 50, got.WastedSeconds, 0.001)
		same(t, "0.14", got.UsefulUSD) // 100 s at $3.6 an hour, 20 s at $7.2
		same(t, "0.1", got.WastedUSD)
		same(t, "0", got.ChargedUSD)
	})

	t.Run("ChargesTheUsefulPartOfAllAttemptsWhenTheJobCompletes", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)

		attempt(t, db, "first", "spot", 0, 50, 0, 10, models.JobQueued)
		attempt(t, db, "second", "spot", 60, 90, 0, 0, models.JobCompleted)

		got := ofJob(t, db)
		same(t, "0.07", got.UsefulUSD)
		same(t, "0.07", got.ChargedUSD)
		same(t, "0.01", got.WastedUSD)
	})

	t.Run("ChargesNothingForAJobThatFails", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)

		attempt(t, db, "first", "spot", 0, 50, 0, 10, models.JobFailed)

		same(t, "0", ofJob(t, db).ChargedUSD)
	})

	t.Run("HasNoTimeAfterTheMachineWasGone", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		exec(t, db, `INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at)
			SELECT id, 'cloud', name, 1, ?0, ?0 FROM pools`, begin.Add(-time.Hour))
		attempt(t, db, "first", "spot", 0, 150, 20, 30, models.JobQueued) // useful to 120, wasted to 170
		attempt(t, db, "second", "free", 180, 190, 20, 0, models.JobQueued)

		for _, step := range []struct {
			gone    any // the second at which the machines were gone, or nil if they are listed again
			seconds float64
			usd     string
		}{
			{155, 35, "0.07"}, {155, 35, "0.07"}, {140, 30, "0.06"}, {nil, 50 + 20, "0.1"}, {160, 40, "0.08"}, {400, 50 + 20, "0.1"},
		} {
			exec(t, db, "UPDATE machines SET billed_until = ?0::timestamptz + make_interval(secs => ?1), gone_at = ?0::timestamptz + make_interval(secs => ?1)", begin, step.gone)
			var seconds float64
			var usd decimal.Decimal
			require.NoError(t, db.NewRaw("SELECT sum(wasted_seconds), sum(wasted_usd) FROM ledger").Scan(t.Context(), &seconds, &usd))
			require.InDelta(t, step.seconds, seconds, 0.001, "%v", step)
			same(t, step.usd, &usd)
			require.InDelta(t, 130, ofJob(t, db).UsefulSeconds, 0.001)
		}
		same(t, "0", ofJob(t, db).ChargedUSD)
	})

	t.Run("GivesBackOnlyWhatItTook", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		exec(t, db, `INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, billed_until, gone_at)
			SELECT id, 'cloud', name, 1, ?0, ?0, ?0, ?0 FROM pools`, begin.Add(-time.Hour))
		attempt(t, db, "first", "spot", 0, 150, 20, 30, models.JobQueued)

		exec(t, db, "UPDATE machines SET billed_until = NULL, gone_at = NULL")

		var seconds float64
		require.NoError(t, db.NewRaw("SELECT sum(wasted_seconds) FROM ledger").Scan(t.Context(), &seconds))
		require.InDelta(t, 50, seconds, 0.001, "the machine was gone before the attempt was entered")
	})

	t.Run("DoesNotKnowWhatAPoolWithoutAPriceCosts", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)

		attempt(t, db, "first", "free", 0, 50, 0, 10, models.JobQueued)
		attempt(t, db, "second", "spot", 60, 90, 0, 0, models.JobCompleted)

		got := ofJob(t, db)
		require.InDelta(t, 70, got.UsefulSeconds, 0.001)
		require.Nil(t, got.UsefulUSD)
		require.Nil(t, got.WastedUSD)
		require.Nil(t, got.ChargedUSD)
	})

	t.Run("CorrectsWasteThatTurnsOutLaterWithASecondRow", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		attempt(t, db, "draft", "spot", 0, 150, 0, 0, models.JobCompleted)

		exec(t, db, "UPDATE job_attempts SET wasted_gpu_seconds = gpu_seconds") // it is discarded

		got := ofJob(t, db)
		require.Zero(t, got.UsefulSeconds)
		require.InDelta(t, 150, got.WastedSeconds, 0.001)
		same(t, "0", got.UsefulUSD)
		same(t, "0.2", got.WastedUSD)
		same(t, "0.2", got.ChargedUSD)
		var rows int
		require.NoError(t, db.NewRaw("SELECT count(*) FROM ledger").Scan(t.Context(), &rows))
		require.Equal(t, 2, rows)
	})

	t.Run("CorrectsAtThePriceOfItsTimeAlsoWhenThatIsForgotten", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		attempt(t, db, "draft", "spot", 0, 150, 0, 0, models.JobCompleted)
		exec(t, db, "DELETE FROM pool_prices")
		exec(t, db, "UPDATE pools SET price_per_hour_usd = 0")

		exec(t, db, "UPDATE job_attempts SET wasted_gpu_seconds = gpu_seconds")

		got := ofJob(t, db)
		same(t, "0", got.UsefulUSD)
		same(t, "0.2", got.WastedUSD)
	})

	t.Run("ChargesOnlyTheRunAndTheModelThatCompleted", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		attempt(t, db, "first run", "spot", 0, 50, 0, 0, models.JobQueued)
		exec(t, db, "UPDATE jobs SET run = 2")
		attempt(t, db, "other model", "spot", 50, 60, 0, 0, models.JobQueued)
		exec(t, db, "UPDATE jobs SET model = 'out'")

		attempt(t, db, "last", "spot", 60, 90, 0, 0, models.JobCompleted)

		got := ofJob(t, db)
		same(t, "0.09", got.UsefulUSD)
		same(t, "0.03", got.ChargedUSD)
	})

	t.Run("NamesTheModelFromWhichAnAttemptFellBack", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		exec(t, db, `UPDATE jobs SET model = 'out', routes = jsonb_build_array(jsonb_build_object('run', 1, 'from', 'testcard', 'to', 'out', 'at', ?::timestamptz))`,
			begin.Add(50*time.Second)) // in the transaction that ends the attempt

		attempt(t, db, "first", "spot", 0, 50, 0, 0, models.JobQueued)
		attempt(t, db, "second", "spot", 60, 70, 0, 0, models.JobCompleted)

		var of []string
		require.NoError(t, db.NewRaw("SELECT model FROM ledger ORDER BY id").Scan(t.Context(), &of))
		require.Equal(t, []string{"testcard", "out"}, of)
	})

	t.Run("DoesNotKnowWhatATimeCostsOfWhichAPartHadNoPrice", func(t *testing.T) {
		t.Parallel()
		for name, prices := range map[string][2]float64{"Before": {0, 3.6}, "After": {3.6, 0}} {
			db := fixture(t)
			exec(t, db, "UPDATE pool_prices SET usd = CASE WHEN since < ?0 THEN ?1 ELSE ?2 END", begin, prices[0], prices[1])
			attempt(t, db, "first", "spot", 0, 150, 0, 0, models.JobQueued)
			require.Nil(t, ofJob(t, db).UsefulUSD, name)
		}
	})

	t.Run("TakesTheFirstPriceForTheTimeBeforeIt", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		exec(t, db, "DELETE FROM pool_prices WHERE since < ?", begin)
		attempt(t, db, "first", "spot", 0, 50, 0, 0, models.JobQueued)
		same(t, "0.1", ofJob(t, db).UsefulUSD)
	})

	t.Run("StaysWhenTheJobIsRemoved", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		attempt(t, db, "first", "spot", 0, 50, 0, 0, models.JobCompleted)

		exec(t, db, "DELETE FROM jobs")

		same(t, "0.05", ofJob(t, db).ChargedUSD)
	})
}

func TestReport(t *testing.T) {
	t.Parallel()
	// report returns the rows by key; "" is the total.
	report := func(t *testing.T, db *bun.DB, by costs.Group, from, to time.Time) map[string]*costs.Row {
		t.Helper()
		rows, err := costs.Report(t.Context(), db, by, costs.Filter{From: from, To: to}, 100)
		require.NoError(t, err)
		require.True(t, rows[0].Total)
		found := map[string]*costs.Row{}
		for _, row := range rows {
			found[row.Key] = row
		}
		return found
	}
	day := begin.Truncate(24 * time.Hour)
	// filled has attempts of two days, and says that all days are open.
	filled := func(t *testing.T) *bun.DB {
		db := fixture(t)
		exec(t, db, "UPDATE ledger_closing SET until = ?", day)
		attempt(t, db, "first", "spot", 0, 50, 0, 10, models.JobQueued)
		attempt(t, db, "next day", "free", 86400, 86460, 0, 0, models.JobQueued)
		attempt(t, db, "last", "spot", 86460, 86490, 0, 0, models.JobCompleted)
		return db
	}
	check := func(t *testing.T, db *bun.DB) {
		t.Helper()
		all := report(t, db, costs.ByDay, day, day.AddDate(0, 0, 2))
		require.Len(t, all, 3)
		require.Equal(t, int64(1), all["2026-03-01"].Attempts)
		same(t, "0.04", &all["2026-03-01"].UsefulUSD)
		same(t, "0.01", &all["2026-03-01"].WastedUSD)
		require.Nil(t, all["2026-03-01"].PerVideo())
		require.Equal(t, int64(2), all["2026-03-02"].Attempts)
		require.Equal(t, int64(1), all["2026-03-02"].Completed)
		require.Equal(t, int64(2), all["2026-03-02"].Unpriced, "one has no price, and the job's charge is unknown with it")
		require.InDelta(t, 90, all["2026-03-02"].UsefulSeconds, 0.001)
		same(t, "0.06", &all["2026-03-02"].UsefulUSD)
		same(t, "0.1", &all[""].UsefulUSD)
		same(t, "0.11", all[""].PerVideo())
		require.Equal(t, int64(3), all[""].Attempts)

		pools := report(t, db, costs.ByPool, day, day.AddDate(0, 0, 1))
		require.Len(t, pools, 2, "the other day is left out")
		same(t, "0.04", &pools["spot"].UsefulUSD)
		require.Contains(t, report(t, db, costs.ByUser, day, day.AddDate(0, 0, 1)), "ann")
		for _, by := range costs.Groups {
			same(t, "0.1", &report(t, db, by, day, day.AddDate(0, 0, 2))[""].UsefulUSD)
			same(t, "0.1", &report(t, db, by, day.AddDate(0, 0, -40), day.AddDate(0, 0, 39))[""].UsefulUSD)
			same(t, "0.06", &report(t, db, by, day.AddDate(0, 0, 1), day.AddDate(0, 2, 0))[""].UsefulUSD)
		}
	}

	t.Run("SumsUpDaysThatAreNotClosed", func(t *testing.T) {
		t.Parallel()
		check(t, filled(t))
	})

	t.Run("SaysTheSameOnceDaysAreClosed", func(t *testing.T) {
		t.Parallel()
		db := filled(t)
		for range 40 { // also over the change to summer time of the session's zone
			require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				exec(t, tx, "SET LOCAL timezone = 'Europe/Berlin'")
				closed, err := costs.CloseDay(ctx, tx)
				require.True(t, closed)
				return err
			}))
			check(t, db)
		}
		var until time.Time
		require.NoError(t, db.NewRaw("SELECT until FROM ledger_closing").Scan(t.Context(), &until))
		require.True(t, until.Equal(day.AddDate(0, 0, 40)), until)
		exec(t, db, "DELETE FROM ledger")
		check(t, db)
		exec(t, db, "DELETE FROM ledger_user_days")
		same(t, "0.1", &report(t, db, costs.ByUser, day, day.AddDate(0, 1, 0))[""].UsefulUSD) // the month has its own sums
	})

	t.Run("CountsNoDraftAsAVideo", func(t *testing.T) {
		t.Parallel()
		db := fixture(t)
		exec(t, db, "UPDATE jobs SET draft_steps = 2")
		attempt(t, db, "first", "spot", 0, 50, 0, 0, models.JobCompleted)
		from, to := begin.Truncate(24*time.Hour), begin.Truncate(24*time.Hour).AddDate(0, 0, 1)
		exec(t, db, "UPDATE ledger_closing SET until = ?", from)
		total := report(t, db, costs.ByDay, from, to)[""]
		require.Equal(t, []int64{1, 1, 0}, []int64{total.Attempts, total.Completed, total.Videos()})
		require.Nil(t, total.PerVideo())

		exec(t, db, "UPDATE jobs SET draft_steps = NULL, kept_until = NULL, status = 'QUEUED', completed_at = NULL, run = 2")
		attempt(t, db, "second", "spot", 50, 100, 0, 0, models.JobCompleted)
		for closed := range 2 {
			for _, by := range []costs.Group{costs.ByDay, costs.ByUser, costs.ByAccount, costs.ByModel} {
				total = report(t, db, by, from, to)[""]
				require.Equal(t, []int64{2, 2, 1}, []int64{total.Attempts, total.Completed, total.Videos()})
				same(t, "0.1", total.PerVideo())
			}
			require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := costs.CloseDay(ctx, tx)
				return err
			}), "day %d", closed)
		}
	})

	t.Run("OfNothingIsNothing", func(t *testing.T) {
		t.Parallel()
		all := report(t, fixture(t), costs.ByUser, day, day.AddDate(0, 0, 1))
		require.Len(t, all, 1)
		require.Zero(t, all[""].Attempts)
	})
}

// A cancel says nothing of where the attempt ran.
func TestReportCountsCancelledAttempts(t *testing.T) {
	t.Parallel()
	db := fixture(t)
	attempt(t, db, "lost", "spot", 0, 10, 0, 0, models.JobQueued)
	exec(t, db, `INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at)
		SELECT md5('stopped')::uuid, md5('j')::uuid, (SELECT run FROM jobs), 2, md5('wspot')::uuid, gen_random_uuid(), 'RUNNING', ?0, ?0`, begin.Add(20*time.Second))
	exec(t, db, "UPDATE job_attempts SET status = 'CANCELLED', ended_at = ? WHERE id = md5('stopped')::uuid", begin.Add(30*time.Second))
	day := begin.Truncate(24 * time.Hour)
	exec(t, db, "UPDATE ledger_closing SET until = ?", day)

	for _, closed := range []bool{false, true} {
		if closed {
			require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := costs.CloseDay(ctx, tx)
				return err
			}))
		}
		rows, err := costs.Report(t.Context(), db, costs.ByProvider, costs.Filter{From: day, To: day.AddDate(0, 0, 1)}, 10)
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, []int64{2, 0, 1}, []int64{rows[1].Attempts, rows[1].Completed, rows[1].Cancelled})
	}
}
