// Package rate enforces each account's rate limit per minute in Redis, across all processes.
//
// A bucket is one key, "{prefix}:rate:NAME": the time, by Redis's clock, at which the taken
// tokens are refilled. Beside it, "{prefix}:rate:NAME:keys" holds the idempotency keys that
// took a token lately. Both expire, so an inactive account leaves nothing behind. While Redis
// is down, slow, full or read-only, each process counts by itself and starts with full
// buckets: n processes then allow up to n times the rate, and no account is refused because of
// Redis.
package rate

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/reelay/reelay/jobs/submit"
)

//go:embed take.lua
var takeSource string

//go:embed give.lua
var giveSource string

var takeScript, giveScript = redis.NewScript(takeSource), redis.NewScript(giveSource)

const (
	// callTimeout bounds a call to a Redis that does not answer. The client's breaker avoids
	// most such calls.
	callTimeout = 200 * time.Millisecond
	// reserveFor is how long a key holds its token: longer than it takes to write a job.
	reserveFor = 10 * time.Second
)

// Limiter is buckets in Redis.
type Limiter struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	alone   local
}

var _ submit.Rates = (*Limiter)(nil)

// New returns the buckets under that prefix. The client must come from ready.NewClient, which
// has short timeouts and skips a Redis that did not answer a moment ago.
func New(client redis.UniversalClient, prefix string) *Limiter {
	return &Limiter{client: client, prefix: "{" + prefix + "}:rate:", timeout: callTimeout}
}

// Take takes one token for each submit from the bucket with this name, which holds perMinute
// tokens (at least 1) and refills evenly at perMinute a minute: see submit.Rates.
func (l *Limiter) Take(ctx context.Context, name string, keys []string, perMinute int) (tokens []submit.Token, wait time.Duration) {
	tokens, wait, err := l.take(ctx, name, keys, perMinute)
	if err != nil {
		return l.alone.take(time.Now(), name, keys, perMinute)
	}
	return tokens, wait
}

// Give returns the tokens of submits that wrote no job.
func (l *Limiter) Give(ctx context.Context, name string, keys []string, perMinute int) {
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	err := giveScript.Run(ctx, l.client, l.keys(name), args(keys, perMinute)...).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		l.alone.give(time.Now(), name, keys, perMinute)
	}
}

func (l *Limiter) take(ctx context.Context, name string, keys []string, perMinute int) (tokens []submit.Token, wait time.Duration,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	answer, err := takeScript.Run(ctx, l.client, l.keys(name), args(keys, perMinute, reserveFor.Microseconds())...).StringSlice()
	if err != nil {
		return nil, 0, err
	}
	if len(answer) != 2 || len(answer[0]) != len(keys) {
		return nil, 0, fmt.Errorf("take.lua answered %v", answer)
	}
	for _, letter := range answer[0] {
		token, known := answers[letter]
		if !known {
			return nil, 0, fmt.Errorf("take.lua answered %v", answer)
		}
		tokens = append(tokens, token)
	}
	micros, err := strconv.ParseInt(answer[1], 10, 64)
	return tokens, time.Duration(micros) * time.Microsecond, err
}

// answers are take.lua's answers.
var answers = map[rune]submit.Token{'t': submit.TokenTaken, 'h': submit.TokenPending, 'r': submit.TokenRefused}

func (l *Limiter) keys(name string) []string {
	return []string{l.prefix + name, l.prefix + name + ":keys"}
}

// args returns a script's arguments. Redis gets only digests of idempotency keys.
func args(keys []string, others ...any) []any {
	for _, key := range keys {
		if key != "" {
			sum := sha256.Sum256([]byte(key))
			key = base64.RawStdEncoding.EncodeToString(sum[:16])
		}
		others = append(others, key)
	}
	return others
}
