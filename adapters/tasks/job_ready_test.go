package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func newPublisher(t *testing.T, redis tasks.Queue) *tasks.Publisher {
	publisher := tasks.NewPublisher(redis)
	t.Cleanup(publisher.Close)
	return publisher
}

func newInspector(t *testing.T, redis asynq.RedisConnOpt) *asynq.Inspector {
	inspector := asynq.NewInspector(redis)
	t.Cleanup(func() { require.NoError(t, inspector.Close()) })
	return inspector
}

func message(t *testing.T, ready change.JobReady) *models.OutboxMessage {
	payload, err := json.Marshal(ready)
	require.NoError(t, err)
	return &models.OutboxMessage{Kind: models.OutboxJobReady, Payload: payload}
}

func TestPublish(t *testing.T) {
	t.Parallel()

	t.Run("ReachesTheHandler", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 5)
		handled := make(chan models.JobID, 2)
		run(t, tasks.Config{Redis: redis, Ready: func(_ context.Context, ids ...models.JobID) error {
			for _, id := range ids {
				handled <- id
			}
			return nil
		}})

		require.NoError(t, newPublisher(t, redis).Publish(t.Context(),
			message(t, change.JobReady{JobID: "job_1", Version: 1, Lane: models.TierFree, Others: []models.JobID{"job_2"}})))

		require.Equal(t, models.JobID("job_1"), receive(t, handled))
		require.Equal(t, models.JobID("job_2"), receive(t, handled))
	})

	t.Run("PutsAMessageOnItsLaneOnce", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 6)
		publisher := newPublisher(t, redis)
		for _, version := range []int{1, 1, 2} {
			require.NoError(t, publisher.Publish(t.Context(), message(t, change.JobReady{JobID: "job_1", Version: version,
				Lane: models.TierEnterprise})))
		}

		pending, err := newInspector(t, redis).ListPendingTasks("enterprise")

		require.NoError(t, err)
		var ids []string
		for _, task := range pending {
			ids = append(ids, task.ID)
		}
		require.ElementsMatch(t, []string{"job_1:1", "job_1:2"}, ids)
	})

	t.Run("RegistersTheQueueAgainAfterRedisLostIt", func(t *testing.T) {
		t.Parallel()

		opt := database(t, 7)
		publisher, inspector := newPublisher(t, opt), newInspector(t, opt)
		ready := message(t, change.JobReady{JobID: "job_1", Version: 1, Lane: models.TierPro})
		require.NoError(t, publisher.Publish(t.Context(), ready))
		empty(t, connect(t, opt))

		require.NoError(t, publisher.Publish(t.Context(), ready))

		queues, err := inspector.Queues()
		require.NoError(t, err)
		require.Equal(t, []string{"pro"}, queues)
	})

	t.Run("FailsWithoutRedis", func(t *testing.T) {
		t.Parallel()

		address, err := redisurl.Parse("redis://127.0.0.1:1")
		require.NoError(t, err)
		publisher := newPublisher(t, tasks.Queue{Address: address})
		ctx, cancel := context.WithTimeout(t.Context(), testrun.WaitLimit)
		defer cancel()

		err = publisher.Publish(ctx, message(t, change.JobReady{JobID: "job_1", Version: 1, Lane: models.TierPro}))

		require.ErrorContains(t, err, "publish that job job_1 is ready")
		require.NotErrorIs(t, err, pass.ErrUnpublishable)
		require.NoError(t, ctx.Err())
	})

	t.Run("RefusesAMessageWithoutAHandler", func(t *testing.T) {
		t.Parallel()

		publisher := newPublisher(t, database(t, 8))

		for says, m := range map[string]*models.OutboxMessage{
			`the kind is "job.lost"`:  {Kind: "job.lost"},
			"unexpected end of JSON":  {Kind: models.OutboxJobReady},
			`there is no lane "SLOW"`: message(t, change.JobReady{JobID: "job_1", Lane: "SLOW"}),
		} {
			err := publisher.Publish(t.Context(), m)
			require.ErrorIs(t, err, pass.ErrUnpublishable)
			require.ErrorContains(t, err, says)
		}
	})
}

func TestJobReady(t *testing.T) {
	t.Parallel()

	t.Run("KeepsAFailedMessageAndContinues", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 9)
		handled := make(chan models.JobID, 10)
		run(t, tasks.Config{Redis: redis, Ready: func(_ context.Context, ids ...models.JobID) error {
			defer func() { handled <- ids[0] }()
			switch ids[0] {
			case "job_broken":
				return errors.New("no connection")
			case "job_refused":
				return apierror.Conflict("No.")
			case "job_panics":
				panic("broken")
			case "job_leased":
				return apierror.NotFound("queued job")
			}
			return nil
		}})
		publisher := newPublisher(t, redis)

		for _, id := range []models.JobID{"job_broken", "job_refused", "job_panics", "job_leased", "job_fine"} {
			require.NoError(t, publisher.Publish(t.Context(), message(t, change.JobReady{JobID: id, Version: 1, Lane: models.TierPro})))
		}

		for range 5 {
			receive(t, handled)
		}
		inspector := newInspector(t, redis)
		testrun.Eventually(t, "the queue is empty", func() bool {
			queue, err := inspector.GetQueueInfo("pro")
			return err == nil && queue.Active == 0 && queue.Pending == 0
		})
		failed, err := inspector.ListArchivedTasks("pro")
		require.NoError(t, err)
		var ids []string
		for _, task := range failed {
			ids = append(ids, task.ID)
		}
		require.ElementsMatch(t, []string{"job_broken:1", "job_refused:1", "job_panics:1"}, ids, "that a worker was quicker is no failure")
	})
}
