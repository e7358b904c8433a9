package console

import (
	"context"
	"sync"
	"time"
)

const (
	// maxFailedLogins is the number of wrong keys per address and minute that are logged
	// and get a full response. A valid key is accepted after any number of wrong ones:
	// strangers behind the same proxy must not lock out operators. Keys have 256 random
	// bits and cannot be guessed.
	maxFailedLogins = 20
	// maxLogins is the number of keys that are looked up at the same time.
	maxLogins = 4
	// maxAddresses bounds the memory of the counts.
	maxAddresses = 10_000
)

// attempts bounds the logins of this process and counts the failed ones by address,
// per minute.
type attempts struct {
	looking chan struct{}

	mu    sync.Mutex
	since time.Time
	count map[string]int
}

func newAttempts() *attempts {
	return &attempts{looking: make(chan struct{}, maxLogins), count: map[string]int{}}
}

// enter waits for a slot to look up a key. leave frees the slot.
func (a *attempts) enter(ctx context.Context) (leave func(), err error) {
	select {
	case a.looking <- struct{}{}:
		return func() { <-a.looking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// failed counts a wrong key and returns the count of its address.
func (a *attempts) failed(address string, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) > time.Minute || len(a.count) >= maxAddresses {
		a.since, a.count = now, map[string]int{}
	}
	a.count[address]++
	return a.count[address]
}
