package watch

import (
	"context"

	"github.com/reelay/reelay/models"
)

// Feeds returns how many jobs' events are followed in this process.
func Feeds(w *Watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		return 0
	}
	return len(w.events.feeds)
}

// MaxChanges is maxChanges.
const MaxChanges = maxChanges

// MaxRing is the size of a Ring.
const MaxRing = maxEvents

// Ring is a ring whose items are their own numbers.
type Ring struct{ inside *ring[int] }

// NewRing makes an empty ring.
func NewRing() Ring { return Ring{newRing(MaxRing, func(n int) int { return n })} }

func (r Ring) Add(n int) { r.inside.add(n) }

func (r Ring) Age() { r.inside.age() }

// Wait waits, as subscriber who, until there is something after n.
func (r Ring) Wait(who any, n int) {
	more := make(chan struct{})
	r.inside.wake(who, n, func() { close(more) })
	<-more
}

func (r Ring) After(n int) (held []int, behind bool) {
	h := r.inside.after(n)
	return h.items, h.behind
}

// ChangeFollowers returns the number of followers of changes in this process.
func ChangeFollowers(w *Watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes == nil || !w.changes.hasBegun() {
		return 0
	}
	return w.changes.followers
}

// Look looks up what is asked of these workers in one statement.
func Look(ctx context.Context, w *Watcher, ids ...models.WorkerID) (rows []*models.Wanted, err error) {
	var all []*look
	for _, id := range ids {
		all = append(all, &look{id: id})
	}
	err = w.lookAll(ctx, all)
	for _, l := range all {
		rows = append(rows, l.row)
	}
	return rows, err
}
