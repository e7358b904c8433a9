package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Presence is a process's sign that it is there. While the API or PostgreSQL is
// away nobody can renew a lease, and that is not the workers' fault. Nor is it while the
// API process that a worker has its connection to cannot reach PostgreSQL.
type Presence struct {
	DB   *bun.DB
	Kind models.ProcessKind

	process uuid.UUID // known after the first pass
}

const (
	// PresenceEvery is how often each process writes.
	PresenceEvery = 2 * time.Second
	// presenceTimeout bounds a pass.
	presenceTimeout = 3 * time.Second
	// gapLength is for how long no process of a kind must have written for it to
	// count as away.
	gapLength = 5 * time.Second
	// reapAnyway is how long after its last sign an attempt is reaped, whatever
	// was away: its agent gives up by itself then.
	reapAnyway = 10 * time.Minute
	// processKept is for how long a process is remembered that fell silent.
	processKept = time.Hour
)

// Pass writes the sign. It must not run twice at once.
func (p *Presence) Pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	if err := models.WritePresence(ctx, p.DB, p.Kind, gapLength); err != nil {
		return fmt.Errorf("write the presence of %s: %w", p.Kind, err)
	}
	if p.Kind != models.ProcessAPI {
		return nil
	}
	if p.process == uuid.Nil {
		p.process = uuid.New()
	}
	if err := models.WriteAPIProcess(ctx, p.DB, p.process, gapLength, processKept); err != nil {
		return fmt.Errorf("write the presence of this process: %w", err)
	}
	return nil
}

// End notes that the process ends in good order: its silence from now on excuses no loss.
// No pass may run any more.
func (p *Presence) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	if err := models.DeleteAPIProcess(ctx, p.DB, p.process); err != nil {
		slog.WarnContext(ctx, "could not note that this process ends", "error", err)
	}
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

// wentSilentWithAPI tells whether a worker that was last heard of then fell silent together
// with an API process: it may have sent its heartbeats to that one, which could not keep
// them. Before both are cut off, a process writes its presence up to one interval earlier,
// and a worker sends its last heartbeat up to one interval earlier.
func wentSilentWithAPI(ctx context.Context, db bun.IDB, lastSign time.Time) (bool, error) {
	silent, err := models.APIFellSilent(ctx, db, lastSign.Add(-2*PresenceEvery), lastSign.Add(HeartbeatEvery+PresenceEvery), gapLength)
	return silent, apierror.Wrap(err, "read which processes were away")
}
