package postgres_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

func TestOpenShared(t *testing.T) {
	t.Parallel()

	t.Run("LogsInWithTheNewestPassword", func(t *testing.T) {
		t.Parallel()
		role := modelstest.NewRole(t, "first")
		var dsn atomic.Value
		dsn.Store(role.DSN("first"))
		db, done, err := postgres.OpenShared(t.Context(), func() string { return dsn.Load().(string) }, 2, 1)
		require.NoError(t, err)
		t.Cleanup(done)
		open, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer open.Close()
		_, err = postgres.Now(t.Context(), open)
		require.NoError(t, err)

		role.SetPassword(t, "second")

		_, err = postgres.Now(t.Context(), open)
		require.NoError(t, err, "an open connection goes on")
		_, err = db.Conn(t.Context()) // the pool's other connection is new
		require.True(t, postgres.IsMisconfigured(err), "%v", err)
		require.True(t, postgres.IsOutage(err), "callers repeat it: %v", err)

		dsn.Store(role.DSN("second"))
		role.Disconnect(t)

		for _, ctx := range []context.Context{t.Context(), postgres.AsRead(t.Context(), true)} {
			testrun.Eventually(t, "it goes on with the new password", func() bool {
				_, err := postgres.Now(ctx, db)
				return err == nil
			})
		}
	})

	t.Run("KeepsItsServerAndDatabase", func(t *testing.T) {
		t.Parallel()
		role := modelstest.NewRole(t, "first")
		good := role.DSN("first")
		var dsn atomic.Value
		dsn.Store(good)
		db, done, err := postgres.OpenShared(t.Context(), func() string { return dsn.Load().(string) }, 2, 1)
		require.NoError(t, err)
		t.Cleanup(done)
		role.SetPassword(t, "second")
		dsn.Store(role.DSN("second"))
		role.Disconnect(t)
		answers := func() bool {
			_, err := postgres.Now(t.Context(), db)
			return err == nil
		}
		testrun.Eventually(t, "it has the new password", answers)

		for _, wrong := range []string{
			"no URL: hunter2", "postgres://reelay:hunter2@127.0.0.1:1/reelay", strings.Replace(good, "/test_", "/other_", 1),
		} {
			dsn.Store(wrong)
			role.Disconnect(t)
			testrun.Eventually(t, "it goes on with the last good one", answers)
		}
	})
}
