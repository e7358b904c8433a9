package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// ProcessKind is a kind of process whose absence keeps workers from renewing
// their leases, or us from knowing of it.
type ProcessKind string

const (
	ProcessAPI     ProcessKind = "api"
	ProcessControl ProcessKind = "control"
)

// WritePresence notes that a process of that kind is there. If none was for as
// long as gap, that was one, and it ends now.
func WritePresence(ctx context.Context, db bun.IDB, kind ProcessKind, gap time.Duration) error {
	return mustChange(db.NewRaw(`
		UPDATE presence SET
			gap_began_at = CASE WHEN away THEN seen_at ELSE gap_began_at END,
			gap_ended_at = CASE WHEN away THEN clock_timestamp() ELSE gap_ended_at END,
			seen_at = greatest(seen_at, clock_timestamp())
		FROM (SELECT seen_at <= clock_timestamp() - make_interval(secs => ?) AS away FROM presence WHERE kind = ? FOR UPDATE) was
		WHERE kind = ?`, gap.Seconds(), kind, kind).Exec(ctx))
}

// Outage is what is known of gaps of ours.
type Outage struct {
	// Open tells that there is one now.
	Open bool `bun:"open"`
	// EndedAt is when the newest one ended; zero if there was none.
	EndedAt time.Time `bun:"ended_at"`
}

// GetOutage reads of gaps, which are that long at least.
func GetOutage(ctx context.Context, db bun.IDB, gap time.Duration) (Outage, error) {
	var o Outage
	err := db.NewRaw(`
		SELECT bool_or(seen_at <= clock_timestamp() - make_interval(secs => ?)) AS open, max(gap_ended_at) AS ended_at
		FROM presence`, gap.Seconds()).Scan(ctx, &o)
	return o, err
}

// FleetLoss is how much of the fleet has gone of late.
type FleetLoss struct {
	Gone int `bun:"gone"`
	All  int `bun:"all_workers"`
}

// CountFleetLoss counts the workers that were lost, or fell silent for longer
// than silence, within that time, and those together with the ones that are
// there. Those that held the given job do not count as gone: it may have been
// the cause.
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
