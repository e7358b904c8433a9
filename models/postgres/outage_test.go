package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func open(t *testing.T, dsn string, conns int) *bun.DB {
	t.Helper()
	db, done, err := postgres.Open(t.Context(), dsn, conns)
	require.NoError(t, err)
	t.Cleanup(done)
	return db
}

// requireOutage asserts that a call fails with an outage error in time.
func requireOutage(t *testing.T, within time.Duration, call func() error) {
	t.Helper()
	clock := testrun.StartQuietClock()
	err := call()
	require.Error(t, err)
	require.True(t, postgres.IsOutage(err), "%v", err)
	require.Less(t, clock.Elapsed(), within, "%v", err)
}

func ask(db bun.IDB) func() error {
	return func() error {
		_, err := postgres.Now(context.Background(), db)
		return err
	}
}

// requireBack asserts that a pool works again, whatever connections it held before.
func requireBack(t *testing.T, db *bun.DB) {
	t.Helper()
	clock := testrun.StartQuietClock()
	testrun.Eventually(t, "PostgreSQL serves again", func() bool { return ask(db)() == nil })
	require.Less(t, clock.Elapsed(), 2*time.Second)
}

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("RecoversAfterPostgreSQLWasKilled", func(t *testing.T) {
		t.Parallel()
		dir, err := os.MkdirTemp("", "reelay-pg-")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		start := func() *localstack.Postgres {
			server, err := localstack.StartPostgres(t.Context(), localstack.PostgresConfig{Dir: dir, Test: true})
			require.NoError(t, err)
			t.Cleanup(func() { server.Stop(context.Background()) })
			return server
		}
		server := start()
		db := open(t, server.DSN(), 8)
		connect(db, 8)

		server.Kill()
		require.NoError(t, server.Stop(t.Context()))
		testrun.Eventually(t, "its children live a moment longer", func() bool { return ask(db)() != nil })
		requireOutage(t, time.Second, ask(db))
		start()

		requireBack(t, db)
	})

	t.Run("RecoversAfterTheConnectionToPostgreSQLWasCut", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		db := open(t, dsn, 4)
		connect(db, 4)

		proxy.Cut()
		requireOutage(t, 3*time.Second, ask(db))
		proxy.Heal()

		requireBack(t, db)
	})

	t.Run("GivesUpOnAHungPostgreSQL", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		db := open(t, dsn, 2)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, ask(tx)())

		proxy.Hang()
		var calls sync.WaitGroup
		calls.Go(func() { requireOutage(t, 20*time.Second, ask(tx)) }) // in the middle of a transaction
		calls.Go(func() { requireOutage(t, 5*time.Second, ask(db)) })  // at its beginning
		calls.Wait()
		proxy.Heal()

		_ = tx.Rollback()
		require.NoError(t, ask(db)())
	})

	t.Run("DoesNotWaitLongForAConnection", func(t *testing.T) {
		t.Parallel()
		db := open(t, modelstest.DSN(t), 2)
		for range 2 {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer tx.Rollback()
		}

		requireOutage(t, 3*time.Second, ask(db))
	})

	t.Run("LeavesAServerThatBecomesReadOnly", func(t *testing.T) {
		t.Parallel()
		dsn := modelstest.DSN(t)
		db := open(t, dsn, 1)
		write := func() error {
			_, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS written ()")
			return err
		}
		_, err := db.ExecContext(t.Context(), "SET default_transaction_read_only = on") // of this connection only
		require.NoError(t, err)

		requireOutage(t, time.Second, write)

		require.NoError(t, write(), "a new connection may lead to the new primary")
	})

	t.Run("EndsTheTransactionOfASilentProcess", func(t *testing.T) {
		t.Parallel()
		db := open(t, modelstest.DSN(t)+"&idle_in_transaction_session_timeout=50", 1)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)

		testrun.Eventually(t, "the transaction is ended", func() bool { err = ask(tx)(); return err != nil })

		require.True(t, postgres.IsOutage(err), "%v", err)
	})

	t.Run("CancelsASlowStatement", func(t *testing.T) {
		t.Parallel()
		dsn := modelstest.DSN(t)
		db, holder := open(t, dsn+"&statement_timeout=50", 1), open(t, dsn, 1)
		tx, err := holder.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = tx.ExecContext(t.Context(), "LOCK TABLE jobs")
		require.NoError(t, err)

		requireOutage(t, 3*time.Second, func() error {
			_, err := db.ExecContext(t.Context(), "SELECT count(*) FROM jobs")
			return err
		})
	})
}

// connect makes the pool hold n connections.
func connect(db *bun.DB, n int) {
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() { _, _ = db.ExecContext(context.Background(), "SELECT pg_sleep(0.05)") })
	}
	calls.Wait()
}

func TestIsOutage(t *testing.T) {
	t.Parallel()

	for code, outage := range map[string]bool{
		"08006": true, "25006": true, "25P03": true, "40001": true, "40P01": true, "53100": true, "53200": true, "53300": true,
		"55P03": true, "57014": true, "57P01": true, "57P02": true, "57P03": true, "58030": true,
		"22P02": false, "23505": false, "25P02": false, "42601": false, "42P01": false, "XX000": false,
	} {
		err := fmt.Errorf("submit job job_1: %w", &pgconn.PgError{Code: code, Severity: "ERROR"})
		require.Equal(t, outage, postgres.IsOutage(err), code)
	}
	require.True(t, postgres.IsOutage(&pgconn.PgError{Code: "XX000", Severity: "PANIC"}))
	for code, is := range map[string][2]bool{ // busy, and reached otherwise
		"57014": {true, false}, "55P03": {true, false}, "40001": {true, false}, "40P01": {true, false}, "25P03": {true, false},
		"53100": {false, true}, "25006": {false, true}, "58030": {false, true}, "57P01": {}, "08006": {},
	} {
		err := fmt.Errorf("submit job job_1: %w", &pgconn.PgError{Code: code, Severity: "ERROR"})
		require.Equal(t, is, [2]bool{postgres.IsBusy(err), postgres.Answers(err)}, code)
	}
	require.True(t, postgres.IsBusy(fmt.Errorf("submit: %w", postgres.ErrLostRace)))
	require.False(t, postgres.IsOutage(nil))
}
