package tasks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// TestReconcile is about messages that asynq lists as active although no process works on
// them.
func TestReconcile(t *testing.T) {
	t.Parallel()

	opt := database(t, 10)
	client := connect(t, opt)
	publisher, inspector := newPublisher(t, opt), newInspector(t, opt)
	for _, id := range []string{"lost", "old", "worked-on", "evicted"} {
		require.NoError(t, publisher.Publish(t.Context(), message(t, change.JobReady{JobID: models.JobID(id), Version: 1, Lane: models.TierPro})))
		active := fmt.Sprintf("%s:1", id)
		require.NoError(t, client.LRem(t.Context(), "asynq:{pro}:pending", 0, active).Err())
		require.NoError(t, client.LPush(t.Context(), "asynq:{pro}:active", active).Err())
		require.NoError(t, client.HSet(t.Context(), "asynq:{pro}:t:"+active, "state", "active").Err())
	}
	lease := func(id string, until time.Time) {
		require.NoError(t, client.ZAdd(t.Context(), "asynq:{pro}:lease", redis.Z{Score: float64(until.Unix()), Member: id + ":1"}).Err())
	}
	lease("old", time.Now().Add(-time.Hour))
	lease("worked-on", time.Now().Add(-time.Minute)) // leased by a process whose clock is slow
	require.NoError(t, client.HDel(t.Context(), "asynq:{pro}:t:evicted:1", "msg").Err())

	back, err := publisher.Reconcile(t.Context())

	require.NoError(t, err)
	require.Equal(t, 3, back)

	active, err := client.LRange(t.Context(), "asynq:{pro}:active", 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"worked-on:1"}, active)
	pending, err := inspector.ListPendingTasks("pro")
	require.NoError(t, err)
	var ids []string
	for _, task := range pending {
		ids = append(ids, task.ID)
	}
	require.ElementsMatch(t, []string{"lost:1", "old:1"}, ids)
	handled := make(chan models.JobID, 3)
	run(t, tasks.Config{Redis: opt, Ready: func(_ context.Context, ids ...models.JobID) error { handled <- ids[0]; return nil }})
	require.ElementsMatch(t, []models.JobID{"lost", "old"}, []models.JobID{receive(t, handled), receive(t, handled)})
	require.NoError(t, publisher.Publish(t.Context(), message(t, change.JobReady{JobID: "evicted", Version: 1, Lane: models.TierPro})))
	require.Equal(t, models.JobID("evicted"), receive(t, handled), "its id is free again")
}
