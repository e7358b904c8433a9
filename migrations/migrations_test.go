package migrations_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/migrations"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestMain(m *testing.M) { modelstest.Main(m.Run) }

// empty returns a database without a schema.
func empty(t *testing.T) *bun.DB {
	t.Helper()
	db := modelstest.DB(t)
	_, err := db.ExecContext(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	require.NoError(t, err)
	return db
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("TakesEachStepOnceFromManyProcesses", func(t *testing.T) {
		t.Parallel()

		db := empty(t)
		const processes = 6
		dsn := modelstest.DSNOf(t, db)
		steps := make([][]string, processes)
		errs := make([]error, processes)
		var starts sync.WaitGroup
		for i := range processes {
			starts.Go(func() {
				own, done, err := postgres.OpenPatient(t.Context(), dsn, 2)
				if err != nil {
					errs[i] = err
					return
				}
				defer done()
				steps[i], errs[i] = migrations.Run(t.Context(), own)
			})
		}
		starts.Wait()

		var taken []string
		for i := range processes {
			require.NoError(t, errs[i])
			taken = append(taken, steps[i]...)
		}
		require.NotEmpty(t, taken)
		seen := map[string]bool{}
		for _, step := range taken {
			require.False(t, seen[step], "%s was taken twice", step)
			seen[step] = true
		}
		again, err := migrations.Run(t.Context(), db)
		require.NoError(t, err)
		require.Empty(t, again)
		var locks int
		require.NoError(t, db.NewRaw("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(t.Context(), &locks))
		require.Zero(t, locks, "the lock is given back")
	})

	t.Run("RefusesADatabaseFromBeforeTheFirstRelease", func(t *testing.T) {
		t.Parallel()

		db := empty(t)
		_, err := migrations.Run(t.Context(), db)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `
			DROP TABLE webhook_tries;
			TRUNCATE bun_migrations;
			INSERT INTO bun_migrations (name, group_id) VALUES ('20261125000000', 1)`)
		require.NoError(t, err)

		_, err = migrations.Run(t.Context(), db)

		require.ErrorIs(t, err, migrations.ErrUnreleased)
		var made bool
		require.NoError(t, db.NewRaw("SELECT to_regclass('webhook_tries') IS NOT NULL").Scan(t.Context(), &made))
		require.False(t, made, "it changed the schema")
	})
}

// lastOfBaseline is the last step of the schema of 0.1.0. It is made in an empty database,
// where nothing has to wait.
const lastOfBaseline = "20261127180023_jit.tx.up.sql"

func TestSteps(t *testing.T) {
	t.Parallel()

	t.Run("DoNotWaitLongForATableWithOthersBehindThem", func(t *testing.T) {
		t.Parallel()

		steps, err := filepath.Glob("*.tx.up.sql")
		require.NoError(t, err)
		require.Contains(t, steps, lastOfBaseline)
		for _, step := range steps {
			if step <= lastOfBaseline {
				continue
			}
			text, err := os.ReadFile(step)
			require.NoError(t, err)
			if strings.Contains(string(text), "\nALTER TABLE ") {
				require.Contains(t, string(text), "SET LOCAL lock_timeout = '5s';\n", step)
			}
		}
	})

	t.Run("OnlyGoForward", func(t *testing.T) {
		t.Parallel()

		back, err := filepath.Glob("*.down.sql")
		require.NoError(t, err)
		require.Empty(t, back)
	})
}

func TestEventPartitions(t *testing.T) {
	t.Parallel()

	partitions := func(t *testing.T, db *bun.DB) int {
		t.Helper()
		var n int
		require.NoError(t, db.NewRaw("SELECT count(*) FROM pg_inherits WHERE inhparent = 'job_events'::regclass").Scan(t.Context(), &n))
		return n
	}

	t.Run("AreMadeOnce", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		before := partitions(t, db)
		errs := make([]error, 5)
		var passes sync.WaitGroup
		for i := range errs {
			passes.Go(func() { errs[i] = models.MakeEventPartitions(t.Context(), db) })
		}
		passes.Wait()

		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, before, partitions(t, db))
		require.Equal(t, 5, before, "this month and three more, and the default")
	})

	t.Run("AreSampledLittleAlsoTheNewOnes", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		_, err := db.ExecContext(t.Context(), "SELECT make_job_event_partitions(5)")
		require.NoError(t, err)

		var little int
		require.NoError(t, db.NewRaw(`
			SELECT count(*) FROM pg_attribute JOIN pg_inherits ON inhrelid = attrelid
			WHERE inhparent = 'job_events'::regclass AND attname IN ('job_id', 'payload') AND attstattarget IN (0, 10)`).Scan(t.Context(), &little))
		require.Equal(t, 2*partitions(t, db), little)
	})

	t.Run("TakeTheEventsOfTheirMonth", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		_, err := db.NewRaw("INSERT INTO job_events (job_id, seq, run, type) VALUES (?, 1, 1, 'QUEUED')", models.NewJobID()).Exec(t.Context())
		require.NoError(t, err)

		var table string
		require.NoError(t, db.NewRaw("SELECT tableoid::regclass::text FROM job_events").Scan(t.Context(), &table))

		require.Equal(t, "job_events_"+time.Now().UTC().Format("2006_01"), table)
	})

	t.Run("TakeOverTheEventsOfTheirMonthThatWentElsewhere", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		stray := strayEvents(t, db, 3)

		_, err := db.ExecContext(t.Context(), "SELECT make_job_event_partitions(5)")

		require.NoError(t, err)
		require.Equal(t, 7, partitions(t, db))
		var tables []string
		require.NoError(t, db.NewRaw("SELECT tableoid::regclass::text FROM job_events WHERE job_id >= ?", stray).Scan(t.Context(), &tables))
		require.Len(t, tables, 3)
		for _, table := range tables {
			require.NotEqual(t, "job_events_default", table)
		}
		_, err = db.ExecContext(t.Context(), "INSERT INTO job_events SELECT * FROM job_events")
		require.ErrorContains(t, err, "duplicate key", "they are as unique as before")
	})

	t.Run("AreLeftToTheDefaultIfItHasTooManyEventsOfThatMonth", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		strayEvents(t, db, 10_001)

		_, err := db.ExecContext(t.Context(), "SELECT make_job_event_partitions(5)")

		require.NoError(t, err)
		require.Equal(t, 6, partitions(t, db), "the month after it has its own")
	})
}

// strayEvents writes n events of a month that has no partition yet, and returns the smallest
// id of their jobs.
func strayEvents(t *testing.T, db *bun.DB, n int) (low string) {
	t.Helper()
	require.NoError(t, db.NewRaw("SELECT uuid7_floor((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '4 months 10 days') AT TIME ZONE 'UTC')").Scan(t.Context(), &low))
	_, err := db.NewRaw("INSERT INTO job_events (job_id, seq, run, type) SELECT ?::uuid, i, 1, 'PROGRESS' FROM generate_series(1, ?) i", low,
		n).Exec(t.Context())
	require.NoError(t, err)
	return low
}

func TestAccounts(t *testing.T) {
	t.Parallel()

	t.Run("AreNeverDeletedAndKeepTheirId", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		_, err := db.ExecContext(t.Context(),
			"INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute) VALUES (md5('a')::uuid, 'a', 'PRO', 1, 1, 1)")
		require.NoError(t, err)

		for _, query := range []string{"DELETE FROM accounts", "UPDATE accounts SET id = md5('b')::uuid"} {
			_, err := db.ExecContext(t.Context(), query)
			require.ErrorContains(t, err, "never deleted", query)
		}
	})
}
