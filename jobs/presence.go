package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Presence is a process's sign that it is there. While the API or PostgreSQL is
// away nobody can renew a lease, and that is not the workers' fault.
type Presence struct {
	DB   *bun.DB
	Kind models.ProcessKind
}

const (
	// PresenceEvery is how often each process writes.
	PresenceEvery = 2 * time.Second
	// gapLength is for how long no process of a kind must have written for it to
	// count as away.
	gapLength = 5 * time.Second
	// reapAnyway is how long after its last sign an attempt is reaped, whatever
	// was away: its agent gives up by itself then.
	reapAnyway = 10 * time.Minute
)

// Pass writes the sign.
func (p *Presence) Pass(ctx context.Context) error {
	if err := models.WritePresence(ctx, p.DB, p.Kind, gapLength); err != nil {
		return fmt.Errorf("write the presence of %s: %w", p.Kind, err)
	}
	return nil
}

// outage is what the reaper must bear in mind: when workers could not reach us.
type outage struct {
	models.Outage
	now time.Time
}

func getOutage(ctx context.Context, db bun.IDB) (o outage, err error) {
	if o.Outage, err = models.GetOutage(ctx, db, gapLength); err != nil {
		return o, fmt.Errorf("read when we were away: %w", err)
	}
	if o.now, err = models.Now(ctx, db); err != nil {
		return o, err
	}
	return o, nil
}

// excuses tells whether a worker that was last heard of then may have been kept
// from us: we are away, or it has not had grace yet since we are back.
func (o outage) excuses(lastSign time.Time, grace time.Duration) bool {
	if o.now.Sub(lastSign) > reapAnyway {
		return false
	}
	return o.Open || !o.EndedAt.IsZero() && o.now.Before(o.EndedAt.Add(grace))
}
