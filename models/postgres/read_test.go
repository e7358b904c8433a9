package postgres_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

func TestAsRead(t *testing.T) {
	t.Parallel()

	t.Run("RunsOneStatementAtATime", func(t *testing.T) {
		t.Parallel()
		db, done, err := postgres.Open(t.Context(), modelstest.DSN(t), 2)
		require.NoError(t, err)
		t.Cleanup(done)
		ctx := postgres.AsRead(t.Context(), false)
		first, err := db.Conn(ctx)
		require.NoError(t, err)
		second := make(chan error, 1)
		go func() {
			_, err := postgres.Now(ctx, db)
			second <- err
		}()

		_, err = postgres.Now(postgres.AsRead(t.Context(), false), db)
		require.NoError(t, err, "another read has the other connection")
		_, err = postgres.Now(postgres.WithoutRead(ctx), db)
		require.NoError(t, err)

		require.Empty(t, second)
		require.NoError(t, first.Close())
		require.NoError(t, <-second)
	})

	t.Run("KeepsLargeReadsOffOrdinaryConnections", func(t *testing.T) {
		t.Parallel()
		dsn := modelstest.DSN(t)
		db, done, err := postgres.OpenShared(t.Context(), func() string { return dsn }, 1, 1)
		require.NoError(t, err)
		t.Cleanup(done)
		begun := time.Now()

		reading, err := db.Conn(postgres.AsRead(t.Context(), true))
		require.NoError(t, err)
		defer reading.Close()
		ordinary, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer ordinary.Close()
		_, err = postgres.Now(postgres.AsRead(t.Context(), true), db)

		require.True(t, postgres.IsOutage(err), "%v", err)
		require.GreaterOrEqual(t, time.Since(begun), 2*time.Second, "it waits for a connection")
	})
}
