package jobstest

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Index is a ready index in memory. Lose makes it as a flushed Redis is.
type Index struct {
	mu    sync.Mutex
	lost  bool
	jobs  map[models.JobID]jobs.ReadyJob
	times map[account]float64
}

type account struct {
	id   models.AccountID
	lane models.Tier
}

// NewIndex makes an empty index.
func NewIndex() *Index {
	return &Index{jobs: map[models.JobID]jobs.ReadyJob{}, times: map[account]float64{}}
}

// Lose loses all that is in it, until it is rebuilt.
func (x *Index) Lose() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost, x.jobs, x.times = true, map[models.JobID]jobs.ReadyJob{}, map[account]float64{}
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
		x.times[account{job.Account, job.Lane}] = job.VirtualTime
	}
	return nil
}

// Remove implements jobs.ReadyIndex.
func (x *Index) Remove(_ context.Context, gone ...jobs.ReadyJob) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost {
		return jobs.ErrIndexLost
	}
	for _, job := range gone {
		delete(x.jobs, job.ID)
		if job.VirtualTime >= 0 {
			x.times[account{job.Account, job.Lane}] = job.VirtualTime
		}
	}
	return nil
}

// First implements jobs.ReadyIndex.
func (x *Index) First(_ context.Context, names []string, n int) ([]jobs.ReadyJob, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost {
		return nil, jobs.ErrIndexLost
	}
	heads := map[account]jobs.ReadyJob{}
	for _, job := range x.jobs {
		at := account{job.Account, job.Lane}
		if head, ok := heads[at]; slices.Contains(names, job.Model) && (!ok || job.Order < head.Order) {
			job.VirtualTime = x.times[at]
			heads[at] = job
		}
	}
	var found []jobs.ReadyJob
	for _, job := range heads {
		found = append(found, job)
	}
	slices.SortFunc(found, func(a, b jobs.ReadyJob) int {
		return cmp.Or(
			cmp.Compare(slices.Index(models.Tiers, a.Lane), slices.Index(models.Tiers, b.Lane)),
			cmp.Compare(a.VirtualTime, b.VirtualTime),
			cmp.Compare(a.Order, b.Order))
	})
	return found[:min(n, len(found))], nil
}

// Rebuild implements jobs.ReadyIndex.
func (x *Index) Rebuild(ctx context.Context, ready []jobs.ReadyJob) error {
	x.mu.Lock()
	x.lost = false
	x.mu.Unlock()
	return x.Add(ctx, ready...)
}

// Wakes implements jobs.ReadyIndex: there is no other process.
func (x *Index) Wakes(ctx context.Context, _ func(string)) error {
	<-ctx.Done()
	return nil
}

// News is news within one process.
type News struct {
	mu        sync.Mutex
	listeners map[string][]chan struct{}
}

// NewNews makes news that nobody follows yet.
func NewNews() *News { return &News{listeners: map[string][]chan struct{}{}} }

// Publish implements jobs.News.
func (n *News) Publish(_ context.Context, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.listeners[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Subscribe implements jobs.News.
func (n *News) Subscribe(_ context.Context, id string) (<-chan struct{}, func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := make(chan struct{}, 1)
	n.listeners[id] = append(n.listeners[id], c)
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listeners[id] = slices.DeleteFunc(n.listeners[id], func(other chan struct{}) bool { return other == c })
	}, nil
}
