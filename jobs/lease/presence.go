package lease

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Presence records that a process is alive. While the API or PostgreSQL is unavailable, or the API
// process to which a worker is connected cannot reach PostgreSQL, that worker cannot renew its
// lease and must not lose it.
type Presence struct {
	DB   *bun.DB
	Kind models.ProcessKind
	// Version and Host describe the process to operators.
	Version, Host string
	// Settings are the process's settings, as SafeSettings returns them. A change is recorded.
	Settings map[string]string

	process  uuid.UUID // known since the first pass
	recorded bool
}

const (
	// PresenceEvery is how often each process writes.
	PresenceEvery = 2 * time.Second
	// presenceTimeout bounds a pass.
	presenceTimeout = 3 * time.Second
	// gapLength is how long all processes of a kind must have been silent to count as unavailable.
	gapLength = 5 * time.Second
	// reapAnyway is how long after its last heartbeat an attempt is reaped regardless of outages.
	// Its agent has given up before.
	reapAnyway = 10 * time.Minute
	// processKept is how long a silent process is remembered.
	processKept = time.Hour
)

// Pass records the presence. Passes must not overlap.
func (p *Presence) Pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	if p.process == uuid.Nil {
		p.process = uuid.New()
	}
	self := &models.Process{ID: p.process, Kind: p.Kind, Version: p.Version, Host: p.Host}
	if err := models.WritePresence(ctx, p.DB, self, gapLength, processKept); err != nil {
		return fmt.Errorf("write that this process runs: %w", err)
	}
	if !p.recorded {
		if err := p.recordSetup(ctx); err != nil {
			return err
		}
		p.recorded = true
	}
	return nil
}

// End records a clean shutdown: from then on the silence of the process excuses no lost lease. No
// pass may run after End.
func (p *Presence) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	err := models.DeleteReplica(ctx, p.DB, p.process)
	if err == nil && p.Kind == models.ProcessAPI {
		err = models.DeleteAPIProcess(ctx, p.DB, p.process)
	}
	if err != nil {
		slog.WarnContext(ctx, "could not note that this process ends", "error", err)
	}
}

// outage is a time in which workers could not reach the server.
type outage struct {
	models.Outage
	now time.Time
}

func getOutage(ctx context.Context, db bun.IDB) (o outage, err error) {
	if o.Outage, err = models.GetOutage(ctx, db, gapLength); err != nil {
		return o, fmt.Errorf("read the outages of the API: %w", err)
	}
	if o.now, err = postgres.Now(ctx, db); err != nil {
		return o, err
	}
	return o, nil
}

// excuses reports whether an outage may have stopped the heartbeats of a worker whose last call was
// at lastSign: the outage is open, or less than grace has passed since it ended.
func (o outage) excuses(lastSign time.Time, grace time.Duration) bool {
	if o.now.Sub(lastSign) > reapAnyway {
		return false
	}
	return o.Open || !o.EndedAt.IsZero() && o.now.Before(o.EndedAt.Add(grace))
}

// wentSilentWithAPI reports whether a worker whose last call was at lastSign fell silent together
// with an API process. That process may have received its heartbeats and failed to save them. The
// last presence of the process, and the last heartbeat of the worker, may each be up to one
// interval older than the cut.
func wentSilentWithAPI(ctx context.Context, db bun.IDB, lastSign time.Time) (bool, error) {
	silent, err := models.APIFellSilent(ctx, db, lastSign.Add(-2*PresenceEvery), lastSign.Add(HeartbeatEvery+PresenceEvery), gapLength)
	return silent, apierror.Wrap(err, "read which processes were absent")
}
