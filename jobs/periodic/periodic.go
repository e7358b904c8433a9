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
	mine, left, err = models.ClaimPass(ctx, p.DB, name, every)
	if err != nil {
		return false, 0, fmt.Errorf("claim a period of the pass %s: %w", name, err)
	}
	return mine, left, nil
}

// Log logs what fails of a pass, but not each time: while a store is away
// passes fail often, and now and then one does not.
type Log struct {
	Name   string
	logged time.Time
}

const logEvery = 30 * time.Second

// Note takes note of how the pass ended.
func (l *Log) Note(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || time.Since(l.logged) < logEvery {
		return
	}
	slog.ErrorContext(ctx, "periodic pass failed", "pass", l.Name, "error", err)
	l.logged = time.Now()
}

// Every calls pass until ctx ends, about each interval, with jitter so that
// replicas spread out. It logs what fails and goes on.
func Every(ctx context.Context, name string, interval time.Duration, pass func(context.Context) error) error {
	log := Log{Name: name}
	for {
		log.Note(ctx, pass(ctx))
		select {
		case <-time.After(interval*9/10 + rand.N(interval/5)):
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
