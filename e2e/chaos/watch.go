package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs/lease"
)

// sample is the state of the database at one moment. Only Nodes, those that are open, counts jobs of
// the workflow.
type sample struct {
	At                          time.Time
	Open, Queued, Running, Idle int
	Completed, Failed, Canceled int
	Nodes                       int
}

// watcher samples the database each second and bypasses all faults.
type watcher struct {
	stack *stack

	mu      sync.Mutex
	samples []sample
	gaps    []outage       // as the servers saw them
	taken   map[int64]bool // outbox messages that their relay did not deliver in time
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		if s, err := w.look(ctx); err == nil {
			w.keep(s)
		}
		w.lookAtOutbox(ctx)
		w.lookAtGaps(ctx)
		sleep(ctx, time.Second)
	}
}

func (w *watcher) look(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s := sample{At: time.Now()}
	err := w.stack.db.NewRaw(`
		SELECT count(*) FILTER (WHERE completed_at IS NULL), count(*) FILTER (WHERE status = 'QUEUED'),
			count(*) FILTER (WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')),
			count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'FAILED'), count(*) FILTER (WHERE status = 'CANCELLED'),
			(SELECT count(*) FROM workers WHERE status = 'IDLE' AND last_heartbeat_at > clock_timestamp() - interval '22 seconds'),
			(SELECT count(*) FROM jobs WHERE workflow_id IS NOT NULL AND completed_at IS NULL)
		FROM jobs WHERE workflow_id IS NULL`).Scan(ctx, &s.Open, &s.Queued, &s.Running, &s.Completed, &s.Failed, &s.Canceled, &s.Idle, &s.Nodes)
	return s, err
}

// last is the newest sample.
func (w *watcher) last() sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.samples) == 0 {
		return sample{}
	}
	return w.samples[len(w.samples)-1]
}

// short reports whether no worker was free during the whole time between two moments.
func (w *watcher) short(from, until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.samples {
		if s.At.After(from.Add(-time.Second)) && s.At.Before(until.Add(time.Second)) && s.Idle > 0 {
			return false
		}
	}
	return true
}

func (w *watcher) keep(s sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
}

// lookAtOutbox records the messages that a relay claimed but did not deliver. They are
// delivered, perhaps again, when its claim of 30 s expires.
func (w *watcher) lookAtOutbox(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var ids []int64
	err := w.stack.db.NewRaw("SELECT id FROM outbox WHERE claimed_until < clock_timestamp() + interval '27 seconds'").Scan(ctx, &ids)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.taken[id] = true
	}
}

func (w *watcher) redelivered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.taken)
}

// lookAtGaps records the gaps of api and control, since the database keeps only the last gap
// of each.
func (w *watcher) lookAtGaps(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var rows []struct{ Began, Ended time.Time }
	err := w.stack.db.NewRaw("SELECT gap_began_at AS began, gap_ended_at AS ended FROM presence WHERE gap_ended_at IS NOT NULL").Scan(ctx,
		&rows)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range rows {
		if !slices.Contains(w.gaps, outage{row.Began, row.Ended}) {
			w.gaps = append(w.gaps, outage{row.Began, row.Ended})
		}
	}
}

// gapEnds returns the ends of all gaps.
func (w *watcher) gapEnds() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ends []time.Time
	for _, gap := range w.gaps {
		ends = append(ends, gap.until)
	}
	return ends
}

// lastingGaps returns all gaps, each extended by one lease.
func (w *watcher) lastingGaps() []outage {
	w.mu.Lock()
	defer w.mu.Unlock()
	var gaps []outage
	for _, gap := range w.gaps {
		gaps = append(gaps, outage{gap.from, gap.until.Add(lease.LeaseTTL)})
	}
	return gaps
}
