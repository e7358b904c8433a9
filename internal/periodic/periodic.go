package periodic

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Periods shares periodic work out between processes.
type Periods struct {
	DB *bun.DB
}

// Claim reports whether the caller must do the work of that name in its current
// period: the first caller in each period must. left is the remaining time of the
// period, by PostgreSQL's clock.
func (p *Periods) Claim(ctx context.Context, name string, every time.Duration) (mine bool, left time.Duration, err error) {
	claims, err := models.ClaimPasses(ctx, p.DB, []models.PassPeriod{{Name: name, Every: every}})
	if err != nil {
		return false, 0, fmt.Errorf("claim a period of the pass %s: %w", name, err)
	}
	return claims[name].Mine, claims[name].Left, nil
}

// Log logs the failures of a periodic task, but not each one: while a store is away, most runs fail,
// and some do not. A failure is a warning, since the next run repeats the work. It is an error once the
// task has kept failing for a minute.
type Log struct {
	Name                  string
	since, failed, logged time.Time
	loud                  bool // whether an error was logged since then
}

const (
	logEvery = 30 * time.Second
	// failsFor is how long a task may fail before a person must act, and how long it must succeed
	// before it works again.
	failsFor = time.Minute
)

// Note takes note of how a run ended.
func (l *Log) Note(ctx context.Context, err error) {
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		if !l.since.IsZero() && now.Sub(l.failed) >= failsFor {
			if l.loud {
				slog.InfoContext(ctx, "a periodic task works again", "task", l.Name)
			}
			*l = Log{Name: l.Name, logged: l.logged}
		}
		return
	case l.since.IsZero():
		l.since = now
	}
	l.failed = now
	lasts := now.Sub(l.since) >= failsFor
	if now.Sub(l.logged) < logEvery && (l.loud || !lasts) {
		return
	}
	l.logged = now
	if lasts {
		l.loud = true
		slog.ErrorContext(ctx, "a periodic task keeps failing", "task", l.Name, "seconds", int(now.Sub(l.since).Seconds()), "error", err)
		return
	}
	slog.WarnContext(ctx, "a periodic task failed; its next run repeats the work", "task", l.Name, "error", err)
}

// Every calls pass until ctx ends, about each interval, with jitter so that
// replicas spread out. It logs failures and continues.
func Every(ctx context.Context, name string, interval time.Duration, pass func(context.Context) error) error {
	return EveryOr(ctx, name, interval, nil, pass)
}

// EveryOr is Every for a pass that is also called when it is woken.
func EveryOr(ctx context.Context, name string, interval time.Duration, woken Wake, pass func(context.Context) error) error {
	log := Log{Name: name}
	for {
		log.Note(ctx, pass(ctx))
		select {
		case <-time.After(interval*9/10 + rand.N(interval/5)):
		case <-woken:
		case <-ctx.Done():
			return nil
		}
	}
}

// Rest waits for that long, or until ctx ends.
func Rest(ctx context.Context, long time.Duration) {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
}

// Wake wakes a loop. Any number of calls of Send before the loop waits wake it once.
type Wake chan struct{}

// NewWake returns a wake that was not sent yet.
func NewWake() Wake { return make(Wake, 1) }

// Send wakes the loop, now or when it waits next.
func (w Wake) Send() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Wait waits for a wake. It returns false once ctx has ended.
func (w Wake) Wait(ctx context.Context) bool {
	select {
	case <-w:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
