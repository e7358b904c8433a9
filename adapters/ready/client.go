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
func NewClient(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		// go-redis' error repeats the URL, password and all.
		return nil, errors.New("the Redis URL is malformed: it must be redis://user:password@host:6379/0")
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = callTimeout, callTimeout, callTimeout
	options.PoolTimeout = callTimeout
	options.ContextTimeoutEnabled = true
	options.DialerRetries, options.MaxRetries = 1, 1 // for a connection that a restart broke
	options.Limiter = &breaker{}
	return redis.NewClient(options), nil
}

// breaker passes all calls until one gets no answer, and then one call at a time until one is
// answered.
type breaker struct {
	mu    sync.Mutex
	until time.Time // no call may try before; zero while Redis answers
}

// Allow implements redis.Limiter.
func (b *breaker) Allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Before(b.until) {
		return errSilent
	}
	if !b.until.IsZero() {
		b.until = now.Add(silencePause) // the other calls wait for the result of this one
	}
	return nil
}

// ReportResult implements redis.Limiter.
func (b *breaker) ReportResult(err error) {
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
