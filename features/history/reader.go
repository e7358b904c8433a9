package history

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Timeline reads the history.
type Timeline struct {
	DB *bun.DB
}

// longestTail is the greatest age of the newest minute at which the time since then is still
// computed while it is read. If it is older, no process records, and that time is unknown.
const longestTail = 3 * time.Minute

// maxPoints bounds a series.
const maxPoints = 1500

// Window returns the figures between two times, as one. The history knows whole minutes: from is
// rounded up to the next one, and to is rounded down unless it is in the minute that has not been
// recorded yet.
func (r *Timeline) Window(ctx context.Context, from, to time.Time) (*Figures, error) {
	all, err := r.Windows(ctx, Window{from, to})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Window is a time of which Windows returns the figures.
type Window struct{ From, To time.Time }

// Windows returns the figures of several times, as Window does. It reads once what they have in
// common.
func (r *Timeline) Windows(ctx context.Context, windows ...Window) ([]*Figures, error) {
	known, err := r.begin(ctx)
	if err != nil {
		return nil, apierror.Wrap(err, "read the history")
	}
	var all []*Figures
	for _, w := range windows {
		found, err := known.read(ctx, w.From, w.To, 0)
		if err != nil {
			return nil, apierror.Wrap(err, "read the history")
		}
		all = append(all, found[0])
	}
	return all, nil
}

// Series returns the figures of each step between two times. A step is a minute, ten minutes, an
// hour or a day, and begins at a multiple of its length in UTC. At most 1,500 steps are returned.
// The last one can be incomplete.
func (r *Timeline) Series(ctx context.Context, from, to time.Time, step time.Duration) ([]*Figures, error) {
	if !isStep(step) {
		return nil, apierror.Invalid("resolution", "The resolution of a history is a minute, ten minutes, an hour or a day.")
	}
	from = from.UTC().Truncate(step)
	if !to.After(from) {
		return nil, apierror.Invalid("to", "to must be after from.")
	}
	if to.Sub(from) > maxPoints*step {
		return nil, apierror.Invalid("resolution", "At this resolution a history has at most %d points: choose a coarser one, or a shorter time.",
			maxPoints)
	}
	known, err := r.begin(ctx)
	if err != nil {
		return nil, apierror.Wrap(err, "read the history")
	}
	all, err := known.read(ctx, from, to, step)
	return all, apierror.Wrap(err, "read the history")
}

func isStep(step time.Duration) bool {
	for _, s := range spans {
		if s.length == step {
			return true
		}
	}
	return false
}

// reading reads several times of the history in one state of it.
type reading struct {
	db    bun.IDB
	state *models.HistoryState
	tails map[Window]*models.HistoryRows // what was computed
}

func (r *Timeline) begin(ctx context.Context) (*reading, error) {
	state, err := models.ReadHistoryState(ctx, r.DB, lengths())
	if err != nil {
		return nil, err
	}
	return &reading{r.DB, state, map[Window]*models.HistoryRows{}}, nil
}

// read returns figures for each step, or for all of it together if step is 0.
func (r *reading) read(ctx context.Context, from, to time.Time, step time.Duration) ([]*Figures, error) {
	var err error
	state := r.state
	to = earlier(to, state.Now)
	rows := new(models.HistoryRows)
	if pieces := piecesOf(state, from, to, step); len(pieces) > 0 {
		if rows, err = models.ListHistory(ctx, r.db, pieces); err != nil {
			return nil, err
		}
	}
	all := steps(from, to, step)
	place := func(at time.Time) *Figures {
		if step == 0 {
			return all[0]
		}
		return all[min(int(at.Sub(all[0].From)/step), len(all)-1)]
	}
	for _, s := range rows.Spans {
		f := place(s.At)
		f.Covered += time.Duration(s.Minutes) * time.Minute
		f.Samples += s.Samples
		f.gauges.Add(s.HistoryGauges)
	}
	for _, j := range rows.Jobs {
		f := place(j.At)
		f.Jobs = append(f.Jobs, j)
	}
	for _, p := range rows.Pools {
		f := place(p.At)
		f.Pools = append(f.Pools, p)
	}
	if err := r.addTail(ctx, from, to, place); err != nil {
		return nil, err
	}
	for _, f := range all {
		f.Jobs, f.Pools = mergeJobs(f.Jobs), mergePools(f.Pools)
	}
	return all, nil
}

// addTail adds the time after the newest recorded minute, computed now.
func (r *reading) addTail(ctx context.Context, from, to time.Time, place func(time.Time) *Figures) error {
	state := r.state
	recorded := state.BeganAt
	if newest := state.Newest[0]; !newest.IsZero() {
		recorded = newest.Add(spans[0].length)
	}
	begin := later(recorded, from)
	if !to.After(begin) || to.Sub(recorded) > longestTail {
		return nil
	}
	rows := r.tails[Window{begin, to}]
	if rows == nil {
		var err error
		if rows, err = compute(ctx, r.db, begin, to); err != nil {
			return fmt.Errorf("compute the last minute: %w", err)
		}
		r.tails[Window{begin, to}] = rows
	}
	f := place(begin)
	f.Covered += to.Sub(begin)
	f.Jobs, f.Pools = append(f.Jobs, rows.Jobs...), append(f.Pools, rows.Pools...)
	return nil
}

// steps returns empty figures for each step.
func steps(from, to time.Time, step time.Duration) []*Figures {
	if step == 0 {
		return []*Figures{{From: from, To: to}}
	}
	all := []*Figures{{From: from, To: from.Add(step)}}
	for at := from.Add(step); at.Before(to); at = at.Add(step) {
		all = append(all, &Figures{From: at, To: at.Add(step)})
	}
	return all
}

// piecesOf covers a time with the longest recorded spans, up to step unless it is 0.
func piecesOf(state *models.HistoryState, from, to time.Time, step time.Duration) (pieces []models.HistoryPiece) {
	for at := roundUp(from, spans[0].length); at.Before(to); {
		used := -1
		for i := len(spans) - 1; i >= 0 && used < 0; i-- {
			s := spans[i]
			fits := (step == 0 || s.length <= step) && at.Equal(at.Truncate(s.length)) && !at.Add(s.length).After(to)
			if fits && !at.After(state.Newest[i]) && at.After(state.Now.Add(-s.keep)) {
				used = i
			}
		}
		if used < 0 {
			at = at.Add(spans[0].length)
			continue
		}
		next := at.Add(spans[used].length)
		if last := len(pieces) - 1; last >= 0 && pieces[last].Seconds == spans[used].seconds() && pieces[last].To.Equal(at) {
			pieces[last].To = next
		} else {
			pieces = append(pieces, models.HistoryPiece{Seconds: spans[used].seconds(), From: at, To: next})
		}
		at = next
	}
	return pieces
}
