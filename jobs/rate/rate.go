// Package rate counts in Redis how much of its rate per minute each account has
// used, so that all processes count together.
//
// A bucket is one key, "{prefix}:rate:NAME": until when what was taken is paid
// for, by Redis's own clock. It expires when the bucket is full again, so that
// who does nothing leaves nothing. While Redis is away, slow, full or read-only
// each process counts by itself and begins with full buckets: n processes let up
// to n times the rate pass, and nobody is shut out because Redis is.
package rate

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/jobs"
)

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(takeSource)

// callTimeout is what a Redis that does not answer costs a call. The client's
// breaker spares most calls even that.
const callTimeout = 200 * time.Millisecond

// Limiter is buckets in Redis.
type Limiter struct {
	client redis.UniversalClient
	prefix string
	alone  local
}

var _ jobs.Rates = (*Limiter)(nil)

// New returns the buckets under that prefix. The client shall be from
// ready.NewClient: it gives up soon, and does not try a Redis at all that did
// not answer a moment ago.
func New(client redis.UniversalClient, prefix string) *Limiter {
	return &Limiter{client: client, prefix: "{" + prefix + "}:rate:"}
}

// Take takes up to n tokens (at least 1) from the bucket of that name, which
// holds perMinute (at least 1) and fills evenly by as many each minute. It
// returns how many it took, and after how long the rest, or a full bucket if the
// rest is more, will be there if nobody else takes them.
func (l *Limiter) Take(ctx context.Context, name string, n, perMinute int) (taken int, wait time.Duration) {
	taken, wait, err := l.run(ctx, name, n, perMinute)
	if err != nil {
		return l.alone.take(time.Now(), name, n, perMinute)
	}
	return taken, wait
}

// Give gives n tokens back that were taken and not used.
func (l *Limiter) Give(ctx context.Context, name string, n, perMinute int) {
	if n <= 0 {
		return
	}
	if _, _, err := l.run(context.WithoutCancel(ctx), name, -n, perMinute); err != nil {
		l.alone.take(time.Now(), name, -n, perMinute)
	}
}

func (l *Limiter) run(ctx context.Context, name string, n, perMinute int) (int, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := takeScript.Run(ctx, l.client, []string{l.prefix + name}, n, perMinute).Slice()
	if err != nil {
		return 0, 0, err
	}
	if len(answer) != 2 {
		return 0, 0, fmt.Errorf("take.lua answered %v", answer)
	}
	taken, ok := answer[0].(int64)
	text, isText := answer[1].(string)
	micros, err := strconv.ParseInt(text, 10, 64)
	if !ok || !isText || err != nil {
		return 0, 0, fmt.Errorf("take.lua answered %v", answer)
	}
	return int(taken), time.Duration(micros) * time.Microsecond, nil
}
