package jobstest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Index is a ready index in memory. After Lose it is empty, like a flushed Redis.
type Index struct {
	mu    sync.Mutex
	lost  bool
	jobs  map[models.JobID]jobs.ReadyJob
	times map[place]float64
	aside map[models.AccountID]models.FlowState
}

type place struct {
	account models.AccountID
	line    models.Line
}

// NewIndex makes an empty index.
func NewIndex() *Index {
	x := &Index{}
	x.empty()
	return x
}

func (x *Index) empty() {
	x.jobs, x.times, x.aside = map[models.JobID]jobs.ReadyJob{}, map[place]float64{}, map[models.AccountID]models.FlowState{}
}

// Lose empties the index until it is rebuilt.
func (x *Index) Lose() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost = true
	x.empty()
}

// Add implements jobs.ReadyIndex.
func (x *Index) Add(_ context.Context, ready ...jobs.ReadyJob) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost {
		return jobs.ErrIndexLost
	}
	for _, job := range ready {
		x.jobs[job.ID] = job
		x.advance(place{job.Account, job.Line}, job.VirtualTime)
	}
	return nil
}

func (x *Index) advance(p place, to float64) { x.times[p] = max(x.times[p], to) }

// Remove implements jobs.ReadyIndex.
func (x *Index) Remove(_ context.Context, gone ...jobs.ReadyJob) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost {
		return jobs.ErrIndexLost
	}
	for _, job := range gone {
		if x.jobs[job.ID].Queue == job.Queue {
			delete(x.jobs, job.ID)
		}
		x.advance(place{job.Account, job.Line}, job.VirtualTime)
	}
	return nil
}

// SetFlows implements jobs.ReadyIndex.
func (x *Index) SetFlows(_ context.Context, standings ...models.FlowState) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost {
		return jobs.ErrIndexLost
	}
	for _, s := range standings {
		if s.Version < x.aside[s.AccountID].Version {
			continue
		}
		x.aside[s.AccountID] = s
		for _, at := range s.Places {
			x.advance(place{s.AccountID, at.Line}, at.VirtualTime)
		}
	}
	return nil
}

// First implements jobs.ReadyIndex.
func (x *Index) First(_ context.Context, queues []models.Queue, accounts []models.AccountID, n int) ([]jobs.ReadyJob, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost {
		return nil, jobs.ErrIndexLost
	}
	for i := 0; i < len(queues); {
		line := queues[i].Line
		of := i
		for i < len(queues) && queues[i].Line == line {
			i++
		}
		if found := x.line(queues[of:i], accounts); len(found) > 0 {
			return found[:min(n, len(found))], nil
		}
	}
	return nil, nil
}

// line returns the first jobs of one line's queues, best first.
func (x *Index) line(queues []models.Queue, accounts []models.AccountID) []jobs.ReadyJob {
	heads := map[models.AccountID]jobs.ReadyJob{}
	for _, job := range x.jobs {
		others := len(accounts) > 0 && !slices.Contains(accounts, job.Account)
		if others || x.aside[job.Account].Capped || !slices.Contains(queues, job.Queue) {
			continue
		}
		if head, ok := heads[job.Account]; !ok || job.Order < head.Order {
			job.VirtualTime = x.times[place{job.Account, job.Line}]
			heads[job.Account] = job
		}
	}
	found := slices.Collect(maps.Values(heads))
	slices.SortFunc(found, func(a, b jobs.ReadyJob) int {
		return cmp.Or(cmp.Compare(a.VirtualTime, b.VirtualTime), cmp.Compare(a.Order, b.Order))
	})
	return found
}

// Rebuild implements jobs.ReadyIndex.
func (x *Index) Rebuild(ctx context.Context, ready []jobs.ReadyJob) error {
	x.mu.Lock()
	x.lost = false
	x.mu.Unlock()
	return x.Add(ctx, ready...)
}

// Wakes implements jobs.ReadyIndex: there is no other process.
func (x *Index) Wakes(ctx context.Context, _ func(models.Queue, models.AccountID)) error {
	<-ctx.Done()
	return nil
}

// Notifications delivers notifications within one process.
type Notifications struct {
	mu        sync.Mutex
	listeners map[string]map[*func()]bool
}

// NewNotifications makes Notifications without subscribers.
func NewNotifications() *Notifications {
	return &Notifications{listeners: map[string]map[*func()]bool{}}
}

// Publish implements jobs.Notifications.
func (n *Notifications) Publish(_ context.Context, ids ...string) {
	n.mu.Lock()
	var all []*func()
	for _, id := range ids {
		all = slices.AppendSeq(all, maps.Keys(n.listeners[id]))
	}
	n.mu.Unlock()
	for _, told := range all {
		(*told)()
	}
}

// Subscribe implements jobs.Notifications.
func (n *Notifications) Subscribe(_ context.Context, id string, told func()) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[id] == nil {
		n.listeners[id] = map[*func()]bool{}
	}
	n.listeners[id][&told] = true
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.listeners[id], &told)
	}
}

// Followers returns the number of subscriptions.
func (n *Notifications) Followers() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	followers := 0
	for _, of := range n.listeners {
		followers += len(of)
	}
	return followers
}
