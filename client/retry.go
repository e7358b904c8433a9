package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/Khan/genqlient/graphql"
)

const (
	// defaultTries is how many times a call that is safe to repeat is sent.
	defaultTries = 4
	// maxPause is the longest wait that the API can ask for before a retry.
	maxPause = 30 * time.Second
)

// WithTries sends a call that is safe to repeat up to n times (4 by default), with
// growing pauses, or with those that the API asks for if they are at most 30 s. Reads
// are safe to repeat, and so are idempotent writes: a submit, which has an idempotency
// key, a cancel, a deletion. WithTries(1) leaves retries to the caller.
func WithTries(n int) Option {
	return func(c *Client) { c.tries = max(n, 1) }
}

// WithWaits calls told before each pause between two tries of a call, with the error of
// the last try. A pause can take up to 30 s.
func WithWaits(told func(last *Error, pause time.Duration)) Option {
	return func(c *Client) { c.waits = told }
}

// repeater sends the requests of calls that are safe to repeat.
type repeater struct{ *Client }

// MakeRequest is caller.MakeRequest with retries. Its error is that of the last try.
func (c repeater) MakeRequest(ctx context.Context, req *graphql.Request, resp *graphql.Response) error {
	unsettled := false
	for try := 1; ; try++ {
		err := caller(c).MakeRequest(ctx, req, resp)
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return err
		}
		unsettled = unsettled || e.Unsettled
		e.Unsettled = unsettled
		pause := max(backoff(try), e.RetryAfter)
		if try >= c.tries || !e.Retryable() || e.RetryAfter > maxPause || ctx.Err() != nil {
			return e
		}
		if c.waits != nil {
			c.waits(e, pause)
		}
		if !sleep(ctx, pause) {
			return e
		}
	}
}

// sleep waits for d. It reports false, without waiting to the end, if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// unsent reports whether a request was never sent because there was no connection.
func unsent(err error) bool {
	failure, ok := errors.AsType[*net.OpError](err)
	return ok && failure.Op == "dial"
}

// backoff returns the wait after this number of consecutive failures: 0.25 s, 0.5 s,
// … 8 s, each shortened by a random part of up to half, so that clients that failed
// together do not retry together.
func backoff(failures int) time.Duration {
	d := 250 * time.Millisecond << min(max(failures-1, 0), 5)
	return d - rand.N(d/2)
}
