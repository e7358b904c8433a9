package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/client"
)

const (
	// callTimeout limits one call, besides the time that the call itself asks to
	// wait, so that a dead connection is found while a lease lasts.
	callTimeout = 10 * time.Second
	// beatTimeout limits a heartbeat, and a progress report, which also extends the
	// lease. Several fit into one lease, each on another connection: the api process
	// behind the first connection may be the only one that does not answer.
	beatTimeout = 5 * time.Second
	// farewellTimeout limits each call that an agent makes while it leaves.
	farewellTimeout = 5 * time.Second
)

// backoff is how long to wait after so many failures in a row: 0.25 s, 0.5 s, …
// 8 s, each shortened by up to a half, so that a fleet does not come back at once.
func backoff(failures int) time.Duration {
	d := 250 * time.Millisecond << min(max(failures-1, 0), 5)
	return d - rand.N(d/2)
}

// pause waits for d, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// theirFault tells whether a call failed for a reason that may pass: the network,
// or a control plane that is away, overloaded or in trouble.
func theirFault(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Retryable() || e.Code == client.CodeInternal)
}

// delay is how long to wait before such a call is repeated: as long as its
// answer asked for, and up to a quarter more, so that a fleet does not come back
// at once, or else the backoff.
func delay(err error, failures int) time.Duration {
	if e, ok := errors.AsType[*client.Error](err); ok && e.RetryAfter > 0 {
		d := min(e.RetryAfter, 30*time.Second)
		return d + rand.N(d/4+1)
	}
	return backoff(failures)
}

// gone tells whether a call was refused because the attempt or the worker is not
// ours any more.
func gone(err error) bool {
	switch client.ErrorCode(err) {
	case client.CodeLeaseLost, client.CodeNotFound, client.CodeUnauthenticated, client.CodeForbidden:
		return true
	}
	return false
}

// optional leaves out what is not known.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
