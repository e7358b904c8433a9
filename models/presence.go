package models

import (
	"context"
	"time"

	"github.com/google/uuid"
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

// WritePresence records that a process of the kind is alive. If none wrote for at least gap,
// it records that gap, which ends now.
func WritePresence(ctx context.Context, db bun.IDB, kind ProcessKind, gap time.Duration) error {
	return postgres.MustChange(db.NewRaw(`
		UPDATE presence SET
			gap_began_at = CASE WHEN away THEN seen_at ELSE gap_began_at END,
			gap_ended_at = CASE WHEN away THEN clock_timestamp() ELSE gap_ended_at END,
			seen_at = greatest(seen_at, clock_timestamp())
		FROM (SELECT seen_at <= clock_timestamp() - make_interval(secs => ?) AS away FROM presence WHERE kind = ? FOR UPDATE) was
		WHERE kind = ?`, gap.Seconds(), kind, kind).Exec(ctx))
}

// WriteAPIProcess records that an API process is alive, and when its newest silence of at
// least gap began. It deletes processes that were silent for longer than kept.
func WriteAPIProcess(ctx context.Context, db bun.IDB, id uuid.UUID, gap, kept time.Duration) error {
	_, err := db.NewRaw(`
		WITH forgotten AS (DELETE FROM api_processes WHERE seen_at < clock_timestamp() - make_interval(secs => ?2) AND id <> ?0)
		INSERT INTO api_processes AS p (id, seen_at) VALUES (?0, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET
			silent_from = CASE WHEN p.seen_at <= EXCLUDED.seen_at - make_interval(secs => ?1) THEN p.seen_at ELSE p.silent_from END,
			seen_at = greatest(p.seen_at, EXCLUDED.seen_at)`, id, gap.Seconds(), kept.Seconds()).Exec(ctx)
	return err
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
