package tasks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/internal/localstack/redistest"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// TestFailover kills the primary that has the messages of a lane.
func TestFailover(t *testing.T) {
	t.Parallel()

	for name, mode := range map[string]redisurl.Mode{"BySentinels": redisurl.Sentinel, "InACluster": redisurl.Cluster} {
		t.Run("KeepsTheHandlersRunning"+name, func(t *testing.T) {
			t.Parallel()
			server, err := redistest.Start(t.Context(), redistest.Config{Mode: mode, Replicas: 1, Away: 500 * time.Millisecond})
			require.NoError(t, err)
			t.Cleanup(func() { server.Stop(context.Background()) })
			address, err := redisurl.Parse(server.URL())
			require.NoError(t, err)
			queue := tasks.Queue{Address: address}
			handled := make(chan models.JobID, 1000)
			stop := run(t, tasks.Config{Redis: queue, Ready: func(_ context.Context, ids ...models.JobID) error {
				handled <- ids[0]
				return nil
			}})
			publisher := newPublisher(t, queue)
			publish := func(id models.JobID) error {
				return publisher.Publish(t.Context(), message(t, change.JobReady{JobID: id, Version: 1, Lane: models.TierPro}))
			}
			testrun.Eventually(t, "a message is taken", func() bool { return publish("before") == nil })
			require.Equal(t, models.JobID("before"), receive(t, handled))

			server.Primary(t.Context(), "asynq:{pro}:pending").Kill()

			// As the relay does it: what Redis does not take stays in PostgreSQL.
			next := 0
			testrun.Eventually(t, "messages are handled again", func() bool {
				next++
				err := publish(models.JobID(fmt.Sprint("after-", next)))
				require.NotErrorIs(t, err, pass.ErrUnpublishable)
				_, again := publisher.Reconcile(t.Context())
				return err == nil && again == nil && len(handled) > 0
			})
			stop()
		})
	}
}
