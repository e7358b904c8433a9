package agent

import (
	"context"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
)

// handleEvery is the shortest time between two calls that store a handle.
const handleEvery = time.Second

// keeper stores the runtime's handles at the control plane in the background, one at a time: the
// first at once, and then the newest, at most one per handleEvery. It logs no handle, since one
// can be a secret. One goroutine owns it: it calls the methods, and calls done after each
// receive from stored.
type keeper struct {
	*attemptLease
	ctx    context.Context
	stored chan error
	// busy reports whether a handle is being stored or waits for its time. began is when the
	// last one was sent.
	busy  bool
	began time.Time
	// ack reports whether the runtime waits to hear that the newest handle is stored.
	ack bool
	// hurry is closed when the attempt ends: handles no longer wait for each other.
	hurry chan struct{}

	// last is the handle that the control plane has, if known.
	last  string
	known bool

	mu   sync.Mutex
	next *runtime.Handle // the newest, until it is sent
}

// newKeeper returns the keeper of a job whose lease has the given handle, or "".
func newKeeper(ctx context.Context, held *attemptLease, handle string) *keeper {
	return &keeper{attemptLease: held, ctx: ctx, stored: make(chan error, 1), last: handle, known: true, hurry: make(chan struct{})}
}

func (k *keeper) put(h *runtime.Handle) {
	k.mu.Lock()
	k.next = h
	k.mu.Unlock()
	k.ack = h.Ack
	if !k.busy {
		k.busy = true
		go func() { k.stored <- k.store() }()
	}
}

// store stores the newest handle, unless the control plane has it.
func (k *keeper) store() error {
	select {
	case <-time.After(time.Until(k.began.Add(handleEvery))):
	case <-k.hurry:
	}
	k.mu.Lock()
	value := k.next.Value
	k.next = nil
	k.mu.Unlock()
	if k.known && k.last == value {
		return nil
	}
	k.began, k.last = time.Now(), value
	return k.fenced(k.ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
		return k.api.StoreHandle(ctx, k.fence, value)
	})
}

// done handles the outcome of a call, and stores the handle that arrived meanwhile. It reports
// whether the runtime waits to hear that its newest handle is stored, and it is.
func (k *keeper) done(err error) (acknowledge bool) {
	k.busy, k.known = false, err == nil
	if err != nil && k.ctx.Err() == nil {
		k.log.Warn("a handle was not stored", "error", err)
	}
	k.mu.Lock()
	next := k.next
	k.mu.Unlock()
	if next != nil {
		k.put(next)
		return false
	}
	acknowledge, k.ack = k.ack && err == nil, false
	return acknowledge
}

// hasten makes the keeper store what it has at once.
func (k *keeper) hasten() {
	if !closed(k.hurry) {
		close(k.hurry)
	}
}

// wait returns when no handle is being stored. The keeper's context must have ended.
func (k *keeper) wait() {
	k.hasten()
	if k.busy {
		<-k.stored
	}
}
