package models

import (
	"context"
	"time"

	"github.com/google/uuid"
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

// WriteAPIProcess notes that an API process is there, and when its newest silence of at
// least gap began. Processes that were silent for as long as kept are forgotten.
func WriteAPIProcess(ctx context.Context, db bun.IDB, id uuid.UUID, gap, kept time.Duration) error {
	_, err := db.NewRaw(`
		WITH forgotten AS (DELETE FROM api_processes WHERE seen_at < clock_timestamp() - make_interval(secs => ?2) AND id <> ?0)
		INSERT INTO api_processes AS p (id, seen_at) VALUES (?0, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET
			silent_from = CASE WHEN p.seen_at <= EXCLUDED.seen_at - make_interval(secs => ?1) THEN p.seen_at ELSE p.silent_from END,
			seen_at = greatest(p.seen_at, EXCLUDED.seen_at)`, id, gap.Seconds(), kept.Seconds()).Exec(ctx)
	return err
}

// DeleteAPIProcess forgets an API process.
func DeleteAPIProcess(ctx context.Context, db bun.IDB, id uuid.UUID) error {
	_, err := db.NewRaw("DELETE FROM api_processes WHERE id = ?", id).Exec(ctx)
	return err
}

// APIFellSilent tells whether a silence of an API process, of at least gap, began between
// two times.
func APIFellSilent(ctx context.Context, db bun.IDB, from, to time.Time, gap time.Duration) (bool, error) {
	var silent bool
	err := db.NewRaw(`
		SELECT EXISTS (SELECT FROM api_processes WHERE silent_from BETWEEN ?0 AND ?1
			OR seen_at BETWEEN ?0 AND ?1 AND seen_at <= clock_timestamp() - make_interval(secs => ?2))`, from, to, gap.Seconds()).Scan(ctx, &silent)
	return silent, err
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
