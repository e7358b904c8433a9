package client

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/Khan/genqlient/graphql"
)

const (
	// defaultTries is how often a call that may be repeated is sent.
	defaultTries = 4
	// maxPause is the longest that a call waits because the API asks it to.
	maxPause = 30 * time.Second
)

// WithTries sends a call that may be repeated up to n times (4 by default), with
// growing pauses, or those that the API asks for if they are at most 30 s. Reads
// may be repeated, and writes that do the same once or twice: a submit, which has
// an idempotency key, a cancel, a deletion. With 1 the caller repeats by itself.
func WithTries(n int) Option {
	return func(c *Client) { c.tries = max(n, 1) }
}

// WithWaits calls told before each pause of a call that will be sent again, with what
// came of it last. A pause may take up to 30 s in which nothing else is heard of it.
func WithWaits(told func(last *Error, pause time.Duration)) Option {
	return func(c *Client) { c.waits = told }
}

// repeater is the way to the API for calls that may be repeated.
type repeater struct{ *Client }

// MakeRequest is caller's, with more tries. Its error is the last one.
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

// sleep waits, and tells whether ctx lasted as long.
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

// unsent tells whether a request never left: there was no connection.
func unsent(err error) bool {
	failure, ok := errors.AsType[*net.OpError](err)
	return ok && failure.Op == "dial"
}
