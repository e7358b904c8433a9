package history

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// Recorder writes the history.
type Recorder struct {
	DB *bun.DB
	// Catalogue has the models; nil means an empty one.
	Catalogue *catalogue.Catalogue

	summed time.Time // the minute until which the last pass summed up and deleted
}

const (
	// Every is how often to call [Recorder.Pass].
	Every = 10 * time.Second
	// lag is how long a transaction can take to commit: a minute is computed this long after it
	// ended. Later commits are missing, which does no harm.
	lag = 3 * time.Second
	// minutesAtOnce bounds the minutes of a pass, newest first, and hoursAtOnce the hours of a gap
	// that is too old for minutes.
	minutesAtOnce = 60
	hoursAtOnce   = 2
	// sumsAtOnce bounds the sums per length in a pass.
	sumsAtOnce = 60
	// computable is the minimum time for which events are kept (see upkeep.DefaultRetention). Older
	// spans cannot be computed.
	computable  = 30 * day
	forgetBatch = 5000
	// countedWaiting bounds the counts of SCHEDULED and of BLOCKED jobs.
	countedWaiting = 100_000
)

// Pass writes the minutes that ended since the last pass, missing minutes, and the sums of complete
// spans, and deletes what is too old. It returns how many spans it wrote. Any number of processes
// may call it at once: each span is written once. In one process, passes must not overlap.
func (r *Recorder) Pass(ctx context.Context) (int, error) {
	state, err := models.ReadHistoryState(ctx, r.DB, nil)
	if err != nil {
		return 0, fmt.Errorf("read the state of the history: %w", err)
	}
	written, err := r.recordMinutes(ctx, state)
	if err != nil {
		return written, err
	}
	n, err := r.recordHours(ctx, state)
	if written += n; err != nil {
		return written, err
	}
	minute := state.Now.Truncate(time.Minute)
	if written == 0 && minute.Equal(r.summed) {
		return 0, nil // there is nothing new to sum up
	}
	for i := 1; i < len(spans); i++ {
		n, err := r.sumUp(ctx, state, spans[i-1], spans[i])
		if written += n; err != nil {
			return written, fmt.Errorf("sum up the history by %s: %w", spans[i].length, err)
		}
	}
	for _, s := range spans {
		if _, err := models.ForgetHistory(ctx, r.DB, s.seconds(), state.Now.Add(-s.keep), forgetBatch); err != nil {
			return written, fmt.Errorf("delete old history: %w", err)
		}
	}
	r.summed = minute
	return written, nil
}

// recordMinutes computes the missing minutes. It reads the gauges of the newest one.
func (r *Recorder) recordMinutes(ctx context.Context, state *models.HistoryState) (written int, err error) {
	minute := spans[0]
	until := state.Now.Add(-lag).UTC().Truncate(minute.length)
	from := roundUp(later(state.Now.Add(-minute.keep), state.BeganAt.UTC().Truncate(minute.length)), minute.length)
	missing, err := models.MissingHistory(ctx, r.DB, minute.seconds(), from, until, minutesAtOnce)
	if err != nil {
		return 0, fmt.Errorf("find missing minutes of the history: %w", err)
	}
	for _, at := range missing {
		fresh := at.Add(minute.length).Equal(until)
		put, err := r.record(ctx, minute, at, fresh)
		if err != nil {
			return written, fmt.Errorf("record the minute %s: %w", at.Format(time.RFC3339), err)
		}
		if put {
			written++
		}
	}
	return written, nil
}

// recordHours computes the hours of a gap that began before the oldest minute that is kept.
func (r *Recorder) recordHours(ctx context.Context, state *models.HistoryState) (written int, err error) {
	hour := spans[2]
	until := roundUp(state.Now.Add(-spans[0].keep), hour.length)
	from := roundUp(later(state.Now.Add(-computable), state.BeganAt.UTC().Truncate(hour.length)), hour.length)
	missing, err := models.MissingHistory(ctx, r.DB, hour.seconds(), from, until, hoursAtOnce)
	if err != nil {
		return 0, fmt.Errorf("find missing hours of the history: %w", err)
	}
	for _, at := range missing {
		known, err := models.MissingHistory(ctx, r.DB, spans[1].seconds(), at, at.Add(hour.length), 1)
		if err != nil {
			return written, err
		}
		if len(known) == 0 {
			continue // its parts can be added up, with their gauges
		}
		put, err := r.record(ctx, hour, at, false)
		if err != nil {
			return written, fmt.Errorf("record the hour %s: %w", at.Format(time.RFC3339), err)
		}
		if put {
			written++
		}
	}
	return written, nil
}

// record computes a span and writes it. It reads the gauges if the span is fresh; otherwise they
// are unknown.
func (r *Recorder) record(ctx context.Context, s span, at time.Time, fresh bool) (put bool, err error) {
	rows, err := compute(ctx, r.DB, at, at.Add(s.length))
	if err != nil {
		return false, err
	}
	known := &models.HistorySpan{Seconds: s.seconds(), At: at, Minutes: s.seconds() / 60}
	if fresh {
		if err := r.sample(ctx, known, rows); err != nil {
			return false, fmt.Errorf("read gauges: %w", err)
		}
	}
	err = jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		// Some minutes of an hour that is computed late may be in the totals already.
		if put, err = models.PutHistory(ctx, tx, known, rows.Jobs, rows.Pools); err != nil || !put || s != spans[0] {
			return err
		}
		return models.AddPaid(ctx, tx, rows.Pools)
	})
	if err != nil || !put || !fresh {
		return put, err
	}
	// In its own transaction: only worker pages read it, and it writes a row per worker.
	_, err = capacity.PutGPUMinute(ctx, r.DB, at)
	return put, err
}

// compute counts what happened from one time until just before another.
func compute(ctx context.Context, db bun.IDB, from, to time.Time) (*models.HistoryRows, error) {
	found := new(models.HistoryRows)
	var err error
	if found.Jobs, err = models.CountHistoryJobs(ctx, db, from, to); err != nil {
		return nil, fmt.Errorf("count what happened to jobs: %w", err)
	}
	if found.Pools, err = models.CountHistoryPools(ctx, db, from, to, models.Deliberate(), models.LeavesPreempted); err != nil {
		return nil, fmt.Errorf("count what happened in pools: %w", err)
	}
	found.Pools = mergePools(found.Pools)
	return found, nil
}

// sample reads the present gauges into a span.
func (r *Recorder) sample(ctx context.Context, known *models.HistorySpan, rows *models.HistoryRows) error {
	queues, err := backlog.CountQueues(ctx, r.DB)
	if err != nil {
		return err
	}
	gauges, pools, err := models.SampleHistory(ctx, r.DB, countedWaiting)
	if err != nil {
		return err
	}
	known.Samples, known.HistoryGauges = 1, gauges
	snapshot := new(catalogue.Snapshot)
	if r.Catalogue != nil {
		snapshot = r.Catalogue.Current()
	}
	drains, err := estimate.ReadDrains(ctx, r.DB, snapshot)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if q.Model == "" || q.Depth == 0 && q.Running == 0 {
			continue
		}
		row := &models.HistoryJobs{Lane: q.Lane, Model: q.Model, Queued: float64(q.Depth), QueuedMax: float64(q.Depth),
			Running: float64(q.Running)}
		if q.OldestWaitSeconds != nil {
			row.OldestWaitMax = *q.OldestWaitSeconds
		}
		row.Closed = min(drains.Of(q.Lane, q.Model).Closed(), row.Queued)
		rows.Jobs = append(rows.Jobs, row)
	}
	if drain := drains.All(); drain.Seconds != nil {
		known.DrainSeconds, known.DrainSamples = *drain.Seconds, 1
	}
	rows.Pools = append(rows.Pools, pools...)
	rows.Jobs, rows.Pools = mergeJobs(rows.Jobs), mergePools(rows.Pools)
	return nil
}

// sumUp writes the spans of a length of which all parts are known.
func (r *Recorder) sumUp(ctx context.Context, state *models.HistoryState, of, into span) (written int, err error) {
	from := roundUp(state.Now.Add(-of.keep), into.length)
	from = later(from, state.BeganAt.UTC().Truncate(into.length))
	until := state.Now.Add(-lag).UTC().Truncate(into.length)
	missing, err := models.MissingHistory(ctx, r.DB, into.seconds(), from, until, sumsAtOnce)
	if err != nil {
		return 0, err
	}
	for _, at := range missing {
		begin := later(at, state.BeganAt.UTC().Truncate(of.length))
		gaps, err := models.MissingHistory(ctx, r.DB, of.seconds(), begin, at.Add(into.length), 1)
		if err != nil {
			return written, err
		}
		if len(gaps) > 0 {
			continue
		}
		rows, err := models.ListHistory(ctx, r.DB, []models.HistoryPiece{{Seconds: of.seconds(), From: at, To: at.Add(into.length)}})
		if err != nil || len(rows.Spans) == 0 {
			return written, err
		}
		sum := &models.HistorySpan{Seconds: into.seconds(), At: at}
		for _, s := range rows.Spans {
			sum.Minutes += s.Minutes
			sum.Samples += s.Samples
			sum.HistoryGauges.Add(s.HistoryGauges)
		}
		put := false
		err = jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
			put, err = models.PutHistory(ctx, tx, sum, mergeJobs(rows.Jobs), mergePools(rows.Pools))
			return err
		})
		if err != nil {
			return written, err
		}
		if put {
			written++
		}
	}
	return written, nil
}
