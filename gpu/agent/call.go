package agent

import (
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

// backoff returns the wait after this number of consecutive failures: 0.25 s, 0.5 s,
// … 8 s, each shortened by a random part of up to half, so that a fleet does not
// return all at once.
func backoff(failures int) time.Duration {
	d := 250 * time.Millisecond << min(max(failures-1, 0), 5)
	return d - rand.N(d/2)
}

// theirFault reports whether a call failed for a temporary reason: the network
// failed, or the control plane is unreachable, overloaded or has an internal error.
func theirFault(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Retryable() || e.Code == client.CodeInternal)
}

// delay returns the wait before such a call is retried: the time that the answer
// asked for, at most 30 s, plus a random part of up to a quarter, so that a fleet
// does not return all at once. Without such an answer it is the backoff.
func delay(err error, failures int) time.Duration {
	if e, ok := errors.AsType[*client.Error](err); ok && e.RetryAfter > 0 {
		d := min(e.RetryAfter, 30*time.Second)
		return d + rand.N(d/4+1)
	}
	return backoff(failures)
}

// gone reports whether a call was refused because the control plane no longer
// accepts this attempt or this worker.
func gone(err error) bool {
	switch client.ErrorCode(err) {
	case client.CodeLeaseLost, client.CodeNotFound, client.CodeUnauthenticated, client.CodeForbidden:
		return true
	}
	return false
}
