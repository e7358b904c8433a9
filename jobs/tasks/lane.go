package tasks

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/reelay/reelay/models"
)

const (
	// periodicQueue has the ticks of the passes.
	periodicQueue = "periodic"
	// webhookQueue has the news that webhooks are to be sent.
	webhookQueue = "webhooks"
)

// laneQueue is the queue of a lane.
func laneQueue(lane models.Tier) string { return strings.ToLower(string(lane)) }

// queues are all queues and their priorities. Ticks go first: they are few, and
// no flood of messages may hold up the reaper. A webhook's message takes no time
// to handle.
func queues() map[string]int {
	priorities := map[string]int{periodicQueue: len(models.Tiers) + 2, webhookQueue: len(models.Tiers) + 1}
	for i, lane := range slices.Backward(models.Tiers) {
		priorities[laneQueue(lane)] = len(models.Tiers) - i
	}
	return priorities
}

// sender puts messages into queues.
type sender struct {
	redis redis.UniversalClient
}

func newSender(opt asynq.RedisConnOpt) sender {
	redis.SetLogger(redisLog{})
	return sender{opt.MakeRedisClient().(redis.UniversalClient)} // as asynq itself has it
}

// send enqueues a message. That it has been before is no error.
func (s sender) send(ctx context.Context, task *asynq.Task, opts ...asynq.Option) error {
	// A client registers each queue once. After a FLUSHALL the monitor would see
	// the queue no more, so each message has a client of its own: it is only a
	// small struct around the connections.
	_, err := asynq.NewClientFromRedisClient(s.redis).EnqueueContext(ctx, task, opts...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

func (s sender) close() { _ = s.redis.Close() } // nothing is buffered
