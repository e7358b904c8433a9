package tasks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/redisurl"
	"github.com/reelay/reelay/models"
)

// Queue is where asynq keeps its messages. It implements [asynq.RedisConnOpt].
type Queue struct {
	Address *redisurl.Address

	timeout time.Duration // of tests
}

var _ asynq.RedisConnOpt = Queue{}

// callTimeout bounds asynq's own calls, which no request waits for.
const callTimeout = time.Second

// MakeRedisClient implements asynq.RedisConnOpt.
func (q Queue) MakeRedisClient() any { return q.open() }

func (q Queue) open() redis.UniversalClient { return q.Address.Open(cmp.Or(q.timeout, callTimeout)) }

// laneQueue returns the queue of a lane.
func laneQueue(lane models.Tier) string { return strings.ToLower(string(lane)) }

// queues returns all queues and their priorities.
func queues() map[string]int {
	priorities := map[string]int{}
	for i, lane := range slices.Backward(models.Tiers) {
		priorities[laneQueue(lane)] = len(models.Tiers) - i
	}
	return priorities
}

// sender puts messages into queues.
type sender struct {
	redis redis.UniversalClient
}

func newSender(q Queue) sender {
	redis.SetLogger(redisLog{})
	return sender{q.open()}
}

// send enqueues a message. It returns nil if the message is already queued.
func (s sender) send(ctx context.Context, task *asynq.Task, opts ...asynq.Option) error {
	// A client registers each queue once, so after a FLUSHALL the monitor would no longer list
	// the queue. Each message therefore has its own client, which is only a small struct
	// around the connections.
	_, err := asynq.NewClientFromRedisClient(s.redis).EnqueueContext(ctx, task, opts...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

func (s sender) close() { _ = s.redis.Close() } // nothing is buffered
