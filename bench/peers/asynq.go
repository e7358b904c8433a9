package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqQueue is a separate queue, since other programs may use the same Redis.
const asynqQueue = "bench-peers"

// asynqPoll is how often asynq polls for jobs. Its default is a second.
const asynqPoll = 20 * time.Millisecond

// openAsynq connects to Redis and empties the queue.
func openAsynq(ctx context.Context) (*redis.Client, *asynq.Client, error) {
	options, err := redis.ParseURL(os.Getenv("PEERS_REDIS_URL"))
	if err != nil {
		return nil, nil, errors.New("PEERS_REDIS_URL is malformed")
	}
	options.PoolSize = riverConns
	db := redis.NewClient(options)
	if err := db.Ping(ctx).Err(); err != nil {
		return nil, nil, err
	}
	if err := asynq.NewInspectorFromRedisClient(db).DeleteQueue(asynqQueue, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, nil, err
	}
	return db, asynq.NewClientFromRedisClient(db), nil
}

func asynqTask(t task) *asynq.Task {
	payload, _ := json.Marshal(noopArgs{t.payload}) // strings always encode
	return asynq.NewTask("noop", payload)
}

// retained keeps a completed task for an hour, as a history.
var retained = []asynq.Option{asynq.Queue(asynqQueue), asynq.Retention(time.Hour)}

func asynqEnqueue(ctx context.Context, t task) (figures, error) {
	db, client, err := openAsynq(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return callers(ctx, t, 1, func(ctx context.Context, _ int) error {
		_, err := client.EnqueueContext(ctx, asynqTask(t), retained...)
		return err
	})
}

func asynqServer(db *redis.Client, clients int, came func()) (*asynq.Server, error) {
	server := asynq.NewServerFromRedisClient(db, asynq.Config{
		Concurrency: clients, Queues: map[string]int{asynqQueue: 1}, TaskCheckInterval: asynqPoll, LogLevel: asynq.FatalLevel,
	})
	return server, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		came()
		return nil
	}))
}

func asynqWork(ctx context.Context, t task) (figures, error) {
	db, client, err := openAsynq(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	filling := t
	filling.clients, filling.span = riverConns, time.Duration(float64(t.span)*0.75)
	if _, err := callers(ctx, filling, 1, func(ctx context.Context, _ int) error {
		_, err := client.EnqueueContext(ctx, asynqTask(t), retained...)
		return err
	}); err != nil {
		return nil, err
	}
	waiting, err := asynq.NewInspectorFromRedisClient(db).GetQueueInfo(asynqQueue)
	if err != nil {
		return nil, err
	}
	all := newCountdown(waiting.Pending)
	began := time.Now()
	server, err := asynqServer(db, t.clients, all.one)
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	return all.rate(ctx, began, t.span)
}

func asynqPickup(ctx context.Context, t task) (figures, error) {
	db, client, err := openAsynq(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	taken := make(chan time.Time, 1)
	server, err := asynqServer(db, 8, func() { taken <- time.Now() })
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	return oneByOne(ctx, t, taken, func(ctx context.Context) error {
		_, err := client.EnqueueContext(ctx, asynqTask(t), retained...)
		return err
	})
}
