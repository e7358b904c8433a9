package jobs

import (
	"slices"
	"sync"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
)

// Waiters are the lease calls that wait in this process. A wake goes to a single one: the call of the
// worker on which such a job costs least, and among those that has waited longest.
type Waiters struct {
	mu        sync.Mutex
	waiting   []*waiter // in order of arrival
	dismissed bool
}

type waiter struct {
	worker models.WorkerID
	Kind   string
	reach  catalogue.Capability
	cost   func(model string) estimate.StartCost
	costs  map[string]estimate.StartCost // by model, as far as they were asked for
	// Woken holds one wake: what work there is, or none to have a look.
	Woken chan Work
}

// Work is that an account has a job in a queue.
type Work struct {
	models.Queue
	Account models.AccountID
}

// Join adds a worker's lease call. The caller must look for work after it, so that no job is
// missed in between.
// cost returns what a job of a model costs on the worker.
func (w *Waiters) Join(worker *models.Worker, reach catalogue.Capability, cost func(model string) estimate.StartCost) *waiter {
	me := &waiter{
		worker: worker.ID, reach: reach, Woken: make(chan Work, 1),
		Kind: worker.Key(), cost: cost, costs: map[string]estimate.StartCost{},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, me)
	return me
}

// Leave removes a lease call. A wake that it did not use is passed on: work to any call that
// serves it, and a look to the next call of its kind.
func (w *Waiters) Leave(me *waiter) {
	w.mu.Lock()
	at := slices.Index(w.waiting, me)
	w.waiting = slices.Delete(w.waiting, at, at+1)
	behind := slices.Clone(w.waiting[at:])
	w.mu.Unlock()
	select {
	case found := <-me.Woken:
		if found == (Work{}) {
			me.passTo(behind, found)
			return
		}
		w.Wake(found.Queue, found.Account)
	default:
	}
}

// Wake wakes one call that waits for jobs like those of an account in the queue, of the worker on
// which they cost least, and tells whether there was a call.
func (w *Waiters) Wake(queue models.Queue, account models.AccountID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := Work{queue, account}
	serves := map[string]bool{} // by kind of worker
	var best *waiter
	for _, other := range w.waiting {
		if len(other.Woken) > 0 {
			continue
		}
		does, known := serves[other.Kind]
		if !known {
			does = other.serves(found)
			serves[other.Kind] = does
		}
		if does && (best == nil || other.costOf(queue.Model).Compare(best.costOf(queue.Model)) < 0) {
			best = other
		}
	}
	return best != nil && best.wake(found)
}

// costOf returns what a job of a model costs on the worker of the call.
func (me *waiter) costOf(model string) estimate.StartCost {
	cost, known := me.costs[model]
	if !known {
		cost = me.cost(model)
		me.costs[model] = cost
	}
	return cost
}

// PassOn wakes the next call after one whose worker may not have the job. It stops at the last
// call, so that a wake does not circulate.
func (w *Waiters) PassOn(me *waiter, found Work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	me.passTo(w.waiting[slices.Index(w.waiting, me)+1:], found)
}

// passTo wakes the first of other calls that can use a wake of this one.
func (me *waiter) passTo(others []*waiter, found Work) {
	for _, other := range others {
		alike := found == Work{} && other.Kind == me.Kind
		if (alike || other.serves(found)) && other.wake(found) {
			return
		}
	}
}

func (me *waiter) serves(found Work) bool { return me.reach.Serves(found.Queue, found.Account) }

// WakeWorker wakes the call of one worker, if it waits here.
func (w *Waiters) WakeWorker(id models.WorkerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.waiting {
		if other.worker == id {
			other.wake(Work{})
		}
	}
}

// Look wakes one call of each kind of worker, to check whether a hint was lost.
func (w *Waiters) Look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	looked := map[string]bool{}
	for _, other := range w.waiting {
		if !looked[other.Kind] {
			looked[other.Kind] = other.wake(Work{})
		}
	}
}

// wake wakes the call. It returns false if the call was woken before.
func (me *waiter) wake(found Work) bool {
	select {
	case me.Woken <- found:
		return true
	default:
		return false
	}
}

// Dismiss ends all waiting, now and later, because this process shuts down. The workers ask
// another process.
func (w *Waiters) Dismiss() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dismissed = true
	for _, other := range w.waiting {
		other.wake(Work{})
	}
}

// IsDismissed reports whether Dismiss was called: calls no longer wait.
func (w *Waiters) IsDismissed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dismissed
}

// Waiting returns how many lease calls wait in this process.
func (w *Waiters) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}
