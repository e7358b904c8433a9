// Package tasks is asynq's side of the domain: message types, lanes, and thin handlers that
// call jobs.
//
// asynq holds nothing that PostgreSQL does not know. A message is a hint. It is handled at
// least once or, if Redis loses it, not at all: sweeps find its job again.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
)

const (
	// checkEvery is how often an idle process polls for messages: their usual delay. Their work was
	// done after the commit, unless that process died or Redis did not answer.
	checkEvery = time.Second
	// handlers is how many messages a process handles at once. They are short,
	// and each holds a connection to PostgreSQL.
	handlers = 8
	// drainTime is how long handlers may take to end at shutdown.
	drainTime = 5 * time.Second
)

// Config is what a control process handles.
type Config struct {
	Redis Queue
	// Ready handles the message that jobs are queued.
	Ready func(context.Context, ...models.JobID) error
}

// Run handles messages until ctx ends. It then lets handlers finish, and returns nil. It tolerates
// outages of Redis, and returns an error only if it could not start.
func Run(ctx context.Context, cfg Config) error {
	redis.SetLogger(redisLog{})
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, cut) })()
	mux := asynq.NewServeMux()
	mux.HandleFunc(string(models.OutboxJobReady), jobReady(cfg.Ready))
	server := asynq.NewServer(cfg.Redis, serverConfig(work))
	if err := server.Start(mux); err != nil {
		return fmt.Errorf("start the task handlers: %w", err)
	}
	defer server.Shutdown()
	<-ctx.Done()
	return nil
}

func serverConfig(work context.Context) asynq.Config {
	return asynq.Config{
		BaseContext:       func() context.Context { return work },
		Concurrency:       handlers,
		TaskCheckInterval: checkEvery,
		ShutdownTimeout:   drainTime,
		Queues:            queues(),
		StrictPriority:    true,
		Logger:            redisLog{},
		LogLevel:          asynq.WarnLevel,
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			slog.ErrorContext(ctx, "task failed", "task", task.Type(), "error", err)
		}),
	}
}

// outcome converts a handler's error for asynq. A caller's error would occur again, so it is
// not retried.
func outcome(err error) error {
	var e *apierror.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// redisLog sends the logs of asynq and go-redis to slog. An outage of Redis needs no person to
// act, and the failing calls report it as well.
type redisLog struct{}

func (redisLog) Debug(args ...any) { slog.Debug("asynq: " + fmt.Sprint(args...)) }
func (redisLog) Info(args ...any)  { slog.Debug("asynq: " + fmt.Sprint(args...)) }
func (redisLog) Warn(args ...any)  { slog.Warn("asynq: " + fmt.Sprint(args...)) }
func (redisLog) Error(args ...any) { slog.Warn("asynq: " + fmt.Sprint(args...)) }
func (redisLog) Fatal(args ...any) { slog.Error("asynq: " + fmt.Sprint(args...)) }

func (redisLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}
