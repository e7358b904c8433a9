package jobs

import (
	"time"
)

// Waiting is how many lease calls wait in this process.
func (w *Waiters) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// Settings is what a doctor says of PostgreSQL's settings.
var Settings = settings

// Drift is how far PostgreSQL's clock is from this machine's.
var Drift = drift

// Feeds is how many jobs' events are followed in this process.
func Feeds(w *Watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		return 0
	}
	return len(w.events.feeds)
}

// MaxChanges bounds the changes that are held for those who are slow.
const MaxChanges = maxChanges

// MaxRing bounds a Ring.
const MaxRing = maxEvents

// Ring is a ring of its items' own numbers.
type Ring struct{ inside *ring[int] }

// NewRing makes an empty ring.
func NewRing() Ring { return Ring{newRing(MaxRing, func(n int) int { return n })} }

func (r Ring) Add(n int) { r.inside.add(n) }
func (r Ring) Age()      { r.inside.age() }

// Wait waits, under some name, until there is something after n.
func (r Ring) Wait(who any, n int) {
	more := make(chan struct{})
	r.inside.wake(who, n, func() { close(more) })
	<-more
}
func (r Ring) After(n int) (held []int, behind bool) {
	h := r.inside.after(n)
	return h.items, h.behind
}

// PlanWebhookRetry is when to try a delivery again.
var PlanWebhookRetry = planWebhookRetry

// CursorOf is the cursor of a mark in the list that a value narrows.
func CursorOf(kind, mark string, narrowed any) string { return listOf(kind, narrowed).cursor(mark) }

// ReadCursor reads it again.
func ReadCursor(cursor, kind string, narrowed any) (string, error) {
	return listOf(kind, narrowed).read(cursor)
}

// ChangeFollowers is how many follow changes in this process, and are told of
// those to come.
func ChangeFollowers(w *Watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes == nil || !w.changes.hasBegun() {
		return 0
	}
	return w.changes.followers
}

// Looking is how many lease calls wait for their turn to look for work.
func Looking(l *Leaser) int { return l.looks.Waiting() }

// Submitting is how many calls wait for their jobs to be written, or write them.
func Submitting(s *Submitter) int { return s.writes.Calls() }

// Patient has calls wait for an account that is held, all together.
func Patient(s *Submitter) { s.patience = time.Minute }

// HoldTogether has calls over leases wait, as if others were at work, until run runs
// those that wait: what keeps a lease together, what ends one, and what beats.
func HoldTogether(h *Holder) (waiting func() int, run func()) {
	keep, end, beat := h.keeping.Hold(), h.ending.Hold(), h.beats.Hold()
	waiting = func() int { return h.keeping.Waiting() + h.ending.Waiting() + h.beats.Waiting() }
	return waiting, func() { keep(); end(); beat() }
}
