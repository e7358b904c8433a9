package ready

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/internal/redisurl"
)

const (
	// callTimeout bounds a call to a Redis that does not answer.
	callTimeout = 200 * time.Millisecond
	// silencePause is how long no call tries a Redis that did not answer; then one call does.
	silencePause = 500 * time.Millisecond
)

// errSilent means that Redis did not answer a moment ago.
var errSilent = errors.New("redis does not answer: trying again in a moment")

// NewClient returns a client for an Index and for Notifications. Everything in Redis can be lost, so
// timeouts are short, and most calls skip a Redis that does not answer.
func NewClient(address *redisurl.Address) redis.UniversalClient {
	client := address.Open(callTimeout, func(o *redis.UniversalOptions) {
		o.ContextTimeoutEnabled = true
		o.DialerRetries, o.MaxRetries = 1, 1 // for a connection that a restart broke
	})
	client.AddHook(&breaker{})
	return client
}

// breaker is a hook that passes all calls until one gets no answer, and then one call at a time
// until one is answered.
type breaker struct {
	mu    sync.Mutex
	until time.Time // no call may try before; zero while Redis answers
}

// insideCall marks the context of a call that passed: what go-redis sends for it on a new
// connection passes as well.
type insideCall struct{}

func (b *breaker) guard(ctx context.Context, call func(context.Context) error) error {
	if ctx.Value(insideCall{}) != nil {
		return call(ctx)
	}
	if !b.allow() {
		return errSilent
	}
	err := call(context.WithValue(ctx, insideCall{}, true))
	b.report(err)
	return err
}

// DialHook implements redis.Hook.
func (b *breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := b.guard(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
		if errors.Is(err, errSilent) {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := b.guard(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
		if errors.Is(err, errSilent) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Before(b.until) {
		return false
	}
	if !b.until.IsZero() {
		b.until = now.Add(silencePause) // the other calls wait for the result of this one
	}
	return true
}

func (b *breaker) report(err error) {
	if errors.Is(err, context.Canceled) {
		return // the caller cancelled, which says nothing about Redis
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Time{}
	if isSilence(err) {
		b.until = time.Now().Add(silencePause)
	}
}

// isSilence reports whether err means that no answer came or no connection was possible. A
// refusal is an answer, and a broken connection is replaced by a new one.
func isSilence(err error) bool {
	var dialled *net.OpError
	var slow net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() ||
		errors.As(err, &dialled) && dialled.Op == "dial"
}

// redisLog sends go-redis's log to slog at the debug level: go-redis logs each lost
// connection, which the failed calls report as well.
type redisLog struct{}

func (redisLog) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}
