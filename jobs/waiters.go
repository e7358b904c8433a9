package jobs

import (
	"slices"
	"strings"
	"sync"

	"github.com/reelay/reelay/models"
)

// Waiters are the lease calls that wait in this process. A wake goes to one of
// them, the one that has waited longest for that model: there is no herd.
type Waiters struct {
	mu        sync.Mutex
	waiting   []*waiter // in order of arrival
	dismissed bool
}

type waiter struct {
	worker models.WorkerID
	models []string
	woken  chan struct{} // holds one wake
}

// join adds a worker's lease call. Whoever joins looks for work after it, so
// that a job is either found or wakes it.
func (w *Waiters) join(worker *models.Worker) *waiter {
	me := &waiter{worker: worker.ID, models: worker.Models, woken: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, me)
	return me
}

// leave removes a lease call. A wake that it did not use is passed on.
func (w *Waiters) leave(me *waiter) {
	w.mu.Lock()
	w.waiting = slices.DeleteFunc(w.waiting, func(other *waiter) bool { return other == me })
	w.mu.Unlock()
	select {
	case <-me.woken:
		w.pass(me.models)
	default:
	}
}

// pass hands on a wake that was for one of these models.
func (w *Waiters) pass(names []string) {
	for _, model := range names {
		w.Wake(model)
	}
}

// Wake wakes one call that waits for the model, and tells whether there was one.
func (w *Waiters) Wake(model string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.waiting {
		if slices.Contains(other.models, model) && other.wake() {
			return true
		}
	}
	return false
}

// WakeWorker wakes the call of one worker, if it waits here.
func (w *Waiters) WakeWorker(id models.WorkerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.waiting {
		if other.worker == id {
			other.wake()
		}
	}
}

// Look wakes one call of each kind of worker, to look whether a hint was lost.
func (w *Waiters) Look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	looked := map[string]bool{}
	for _, other := range w.waiting {
		if kind := strings.Join(other.models, "\x00"); !looked[kind] {
			looked[kind] = other.wake()
		}
	}
}

// wake tells whether the call had not been woken yet.
func (me *waiter) wake() bool {
	select {
	case me.woken <- struct{}{}:
		return true
	default:
		return false
	}
}

// Dismiss ends all waiting, now and from now on: this process ends, and who
// waited asks another one.
func (w *Waiters) Dismiss() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dismissed = true
	for _, other := range w.waiting {
		other.wake()
	}
}

func (w *Waiters) isDismissed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dismissed
}
