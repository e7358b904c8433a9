package pass

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Rerouter moves queued jobs that cannot start in time to another model of their fallback.
type Rerouter struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Catalogue *catalogue.Catalogue
}

// rerouteBatch bounds the jobs of one pass. The next pass takes the rest.
const rerouteBatch = 200

// Reroute moves queued jobs whose model cannot run now, whose finishBy their model cannot meet, or that waited longer than
// their lane's wait target, each to the first model of its fallback that has room. It returns how many it moved. Any number of
// processes may call it at once.
func (r *Rerouter) Reroute(ctx context.Context) (int, error) {
	known := r.Catalogue.Current()
	s, err := readSupply(ctx, r.DB, known)
	if err != nil {
		return 0, err
	}
	var free, away []string
	for _, m := range known.Models() {
		if s.most(m) > 0 {
			free = append(free, m.Name)
		}
		if s.away(m) {
			away = append(away, m.Name)
		}
	}
	if len(free) == 0 {
		return 0, nil
	}
	waits := map[models.Tier]float64{}
	for lane, after := range jobs.LateAfter() {
		waits[lane] = after.Seconds()
	}
	found, err := models.ListReroutable(ctx, r.DB, free, away, waits, rerouteBatch)
	if err != nil {
		return 0, fmt.Errorf("find jobs for another model: %w", err)
	}
	if len(found) == 0 {
		return 0, nil
	}
	pace, err := change.ReadPaceOf(ctx, r.DB, lo.Map(known.Models(), func(m *catalogue.Model, _ int) string { return m.Name }))
	if err != nil {
		return 0, err
	}
	moved := 0
	var failed []error
	for _, job := range found {
		done, err := r.reroute(ctx, known, pace, job.ID)
		if err != nil {
			failed = append(failed, fmt.Errorf("look for another model for job %s: %w", job.ID, err))
		} else if done != nil {
			moved++
			r.Notifier.After(ctx, done)
		}
	}
	return moved, errors.Join(failed...)
}

// reroute moves one job if it still must. What has room is read again with the job locked, so that passes of several
// processes do not move more jobs to a model than it has room for.
func (r *Rerouter) reroute(ctx context.Context, known *catalogue.Snapshot, pace *change.Pace, id models.JobID) (
	moved *change.Change, err error,
) {
	err = change.DoLocked(ctx, r.DB, id, models.LockFreeJob, func(ctx context.Context, tx bun.Tx, c *change.Change) error {
		moved = nil
		if c.Job.Status != models.JobQueued {
			return nil
		}
		routes := change.Routes(known, c.Job)
		if len(routes) == 0 {
			return nil
		}
		s, err := readSupply(ctx, tx, known)
		if err != nil {
			return err
		}
		why := s.why(known, pace, c)
		if why == "" {
			return nil
		}
		if err := models.LockRoutesTo(ctx, tx, lo.Map(routes, func(r change.Route, _ int) string { return r.To.Name })); err != nil {
			return fmt.Errorf("wait for the moves of other jobs: %w", err)
		}
		for _, route := range routes {
			most := s.room(route.To, c.Job)
			if most == 0 {
				continue
			}
			queued, err := models.CountQueuedOf(ctx, tx, route.To.Name, most)
			if err != nil {
				return fmt.Errorf("count the jobs of %s: %w", route.To.Name, err)
			}
			if queued >= most {
				continue
			}
			if err := c.Reroute(ctx, route, why); err != nil {
				return err
			}
			if !c.Job.FinishBy.IsZero() {
				if err := pace.Place(ctx, tx, c.Job, c.Now); err != nil {
					return err
				}
			}
			moved = c
			return c.Save(ctx)
		}
		return nil
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return moved, err
}

// supply is what could render jobs now.
type supply struct {
	capacity  []capacity.Capacity
	providers []*capacity.ProviderUse
}

func readSupply(ctx context.Context, db bun.IDB, known *catalogue.Snapshot) (s supply, err error) {
	names := lo.Map(known.Models(), func(m *catalogue.Model, _ int) string { return m.Name })
	if s.capacity, err = capacity.ListCapacity(ctx, db, names); err != nil {
		return s, fmt.Errorf("list the capacity: %w", err)
	}
	if s.providers, err = capacity.ListProviderUse(ctx, db, nil); err != nil {
		return s, fmt.Errorf("list the accounts at providers: %w", err)
	}
	return s, nil
}

// slots returns how many slots accounts at hosted providers that take jobs now have free for a model.
func (s supply) slots(m *catalogue.Model) (free int) {
	for _, u := range s.providers {
		if u.State() == capacity.ProviderReady && slices.Contains(u.Models, m.Name) {
			free += u.Concurrent - u.Slots
		}
	}
	return free
}

func hosted(m *catalogue.Model) bool { return engine.Kind(m.Runtime).Hosted() != nil }

// idle counts the idle workers of a kind that may start a job.
func idle(c capacity.Capacity) int { return max(c.Idle-c.Quarantined, 0) }

// most is the most jobs of a model that could start now.
func (s supply) most(m *catalogue.Model) (n int) {
	for _, c := range s.capacity {
		if slices.Contains(c.Models, m.Name) {
			n += idle(c)
		}
	}
	if hosted(m) {
		n = min(n, s.slots(m))
	}
	return n
}

// room is most for jobs that need what this one needs, whatever slack it has: with another model it has another.
func (s supply) room(m *catalogue.Model, job *models.Job) (n int) {
	if job.Needs.IsHeld() {
		return 0 // a budget is spent
	}
	for _, c := range s.capacity {
		if c.Runs(m.Name, job.Lane, job.AccountID, job.Needs.Also(job.Spent()), job.Queue().Region) {
			n += idle(c)
		}
	}
	if hosted(m) {
		n = min(n, s.slots(m))
	}
	return n
}

// away reports whether nothing renders jobs of a model now: no worker, no pool that could have one, or no account at its
// provider that calls are made for.
func (s supply) away(m *catalogue.Model) bool {
	if hosted(m) && !slices.ContainsFunc(s.providers, func(u *capacity.ProviderUse) bool {
		return slices.Contains(u.Models, m.Name) && u.State() != capacity.ProviderOpen && u.State() != capacity.ProviderPaused
	}) {
		return true
	}
	return !slices.ContainsFunc(s.capacity, func(c capacity.Capacity) bool {
		return slices.Contains(c.Models, m.Name) && c.Booting+c.Idle+c.Busy+c.Most > 0
	})
}

// why says why a queued job should have another model, or "" if it should not.
func (s supply) why(known *catalogue.Snapshot, pace *change.Pace, c *change.Change) string {
	job := c.Job
	model := known.At(job.Model, job.ModelVersion)
	since := slices.MaxFunc([]time.Time{job.QueuedAt, job.RoutedAt()}, time.Time.Compare)
	late, hasTarget := jobs.LateAfter()[job.Lane]
	switch {
	case model == nil || s.away(model):
		return fmt.Sprintf("nothing can render %s now", job.Model)
	case pace.Pressed(job, c.Now):
		return fmt.Sprintf("with %s it would not be complete by its finishBy, %s", job.Model, text.MomentToSecond(job.FinishBy.UTC(), c.Now))
	case hasTarget && c.Now.Sub(since) > late:
		return fmt.Sprintf("it waited longer for %s than the %s of its lane", job.Model, text.Seconds(late.Seconds()))
	}
	return ""
}
