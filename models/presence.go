package models

import (
	"context"
	"database/sql"
	_ "embed"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// ProcessKind is a kind of process whose absence keeps workers from renewing their leases, or
// keeps Reelay from noticing that.
type ProcessKind string

const (
	ProcessAPI     ProcessKind = "api"
	ProcessControl ProcessKind = "control"
)

//go:embed sql/write_presence.sql
var writePresenceSQL string

// WritePresence records that a process is alive. If no process of its kind wrote for at least gap, it
// records that gap, which ends now. For an API process it also records when its own newest silence of
// at least gap began. It deletes processes that were silent for longer than kept.
func WritePresence(ctx context.Context, db bun.IDB, p *Process, gap, kept time.Duration) error {
	rows, err := postgres.Run(ctx, db, writePresenceSQL, pgx.NamedArgs{
		"id": p.ID, "kind": string(p.Kind), "version": p.Version, "host": p.Host, "gap": gap.Seconds(), "kept": kept.Seconds(),
	})
	return postgres.Scan(rows, err, func(*sql.Rows) error { return nil })
}

// DeleteAPIProcess removes an API process.
func DeleteAPIProcess(ctx context.Context, db bun.IDB, id uuid.UUID) error {
	_, err := db.NewRaw("DELETE FROM api_processes WHERE id = ?", id).Exec(ctx)
	return err
}

// APIFellSilent reports whether an API process began a silence of at least gap between two
// times.
func APIFellSilent(ctx context.Context, db bun.IDB, from, to time.Time, gap time.Duration) (bool, error) {
	var silent bool
	err := db.NewRaw(`
		SELECT EXISTS (SELECT FROM api_processes WHERE silent_from BETWEEN ?0 AND ?1
			OR seen_at BETWEEN ?0 AND ?1 AND seen_at <= clock_timestamp() - make_interval(secs => ?2))`, from, to, gap.Seconds()).Scan(ctx, &silent)
	return silent, err
}

// Outage describes the gaps in which no process of a kind was alive.
type Outage struct {
	// Open reports whether there is a gap now.
	Open bool `bun:"open"`
	// EndedAt is when the newest gap ended, or zero if there was none.
	EndedAt time.Time `bun:"ended_at"`
}

// GetOutage returns the gaps. An open gap counts once it is at least gap long.
func GetOutage(ctx context.Context, db bun.IDB, gap time.Duration) (Outage, error) {
	var o Outage
	err := db.NewRaw(`
		SELECT bool_or(seen_at <= clock_timestamp() - make_interval(secs => ?)) AS open, max(gap_ended_at) AS ended_at
		FROM presence`, gap.Seconds()).Scan(ctx, &o)
	return o, err
}

// FleetLoss is the share of the fleet that was lost recently.
type FleetLoss struct {
	Gone int `bun:"gone"`
	All  int `bun:"all_workers"`
}

// CountFleetLoss counts workers that were lost within the given time or have been silent for
// longer than silence, and all workers including those. Workers that held the given job do not
// count as gone: the job may be the cause.
func CountFleetLoss(ctx context.Context, db bun.IDB, but JobID, within, silence time.Duration) (FleetLoss, error) {
	var f FleetLoss
	err := db.NewRaw(`
		WITH fleet AS (
			SELECT id, lost_at > clock_timestamp() - make_interval(secs => ?0)
				OR status IN ('IDLE', 'BUSY') AND last_heartbeat_at < clock_timestamp() - make_interval(secs => ?1) AS gone
			FROM workers
			WHERE ended_at IS NULL AND status IN ('IDLE', 'BUSY', 'DRAINING') OR lost_at > clock_timestamp() - make_interval(secs => ?0))
		SELECT count(*) FILTER (WHERE gone AND NOT EXISTS (
				SELECT FROM job_attempts a WHERE a.worker_id = fleet.id AND a.job_id = ?2)) AS gone,
			count(*) AS all_workers
		FROM fleet`, within.Seconds(), silence.Seconds(), but).Scan(ctx, &f)
	return f, err
}
