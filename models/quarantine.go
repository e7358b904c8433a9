package models

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// QuarantineCause is why a host is in quarantine.
type QuarantineCause string

const (
	// QuarantineOperator means that an operator asked for it.
	QuarantineOperator QuarantineCause = "OPERATOR"
	// QuarantineCrashes means that models crashed there which run elsewhere.
	QuarantineCrashes QuarantineCause = "CRASHES"
	// QuarantineGPU means that a GPU reported an error of its hardware.
	QuarantineGPU QuarantineCause = "GPU"
)

// Host is a machine of a provider. It can run several workers, one after the other too.
type Host struct {
	Provider   string `bun:"provider,pk"`
	InstanceID string `bun:"provider_instance_id,pk"`
}

// Quarantine keeps jobs from the workers of a host.
type Quarantine struct {
	bun.BaseModel `bun:"table:quarantines,alias:q"`

	Host
	// Until is when it ends; it is zero if an operator released the host.
	Until  time.Time       `bun:"until,nullzero"`
	Cause  QuarantineCause `bun:"cause"`
	Reason string          `bun:"reason"`
	// Times is how often the host was quarantined without an operator.
	Times     int       `bun:"times"`
	ChangedAt time.Time `bun:"changed_at"`
}

// WorkerQuarantine is the quarantine of a worker's host. It is empty if the host has none.
type WorkerQuarantine struct {
	QuarantinedUntil time.Time       `bun:"quarantined_until,nullzero" json:"quarantined_until,omitzero"`
	QuarantineCause  QuarantineCause `bun:"quarantine_cause" json:"quarantine_cause"`
	QuarantineReason string          `bun:"quarantine_reason" json:"quarantine_reason"`
}

// Quarantined reports whether the worker gets no job at a time.
func (q *WorkerQuarantine) Quarantined(at time.Time) bool { return q.QuarantinedUntil.After(at) }

// GetQuarantine returns what is known of a host, or sql.ErrNoRows if it was never quarantined.
func GetQuarantine(ctx context.Context, db bun.IDB, host Host) (*Quarantine, error) {
	q := &Quarantine{Host: host}
	err := db.NewSelect().Model(q).WherePK().Scan(ctx)
	return q, err
}

// QuarantineOf returns what a new worker of a host has of its quarantine.
func QuarantineOf(ctx context.Context, db bun.IDB, host Host) (WorkerQuarantine, error) {
	q, err := GetQuarantine(ctx, db, host)
	if errors.Is(err, sql.ErrNoRows) || err == nil && q.Until.IsZero() {
		return WorkerQuarantine{}, nil
	}
	return WorkerQuarantine{QuarantinedUntil: q.Until, QuarantineCause: q.Cause, QuarantineReason: q.Reason}, err
}

// SetQuarantine quarantines a host, or releases it if Until is zero.
func SetQuarantine(ctx context.Context, tx bun.Tx, q *Quarantine) error {
	_, err := tx.NewInsert().Model(q).
		On("CONFLICT (provider, provider_instance_id) DO UPDATE").
		Set("until = excluded.until, cause = excluded.cause, reason = excluded.reason, times = excluded.times, changed_at = excluded.changed_at").
		Exec(ctx)
	return err
}

// CopyQuarantines writes to the workers what holds for their hosts, where it differs, and returns
// those workers. A worker that registered at the same time may have missed it.
func CopyQuarantines(ctx context.Context, tx bun.Tx) (changed []WorkerID, err error) {
	err = tx.NewRaw(`
		WITH differing AS MATERIALIZED (
			SELECT w.id, q.until, q.cause, q.reason FROM quarantines q
			JOIN workers w ON w.provider = q.provider AND w.provider_instance_id = q.provider_instance_id AND w.ended_at IS NULL
			WHERE (w.quarantined_until, w.quarantine_cause, w.quarantine_reason) IS DISTINCT FROM (q.until, q.cause, q.reason)
				AND (q.until IS NOT NULL OR w.quarantined_until IS NOT NULL)
			ORDER BY w.id FOR NO KEY UPDATE OF w)
		UPDATE workers w SET quarantined_until = d.until, quarantine_cause = d.cause, quarantine_reason = d.reason
		FROM differing d WHERE w.id = d.id RETURNING w.id`).Scan(ctx, &changed)
	return changed, err
}

// SuspectSQL is the classes of failures that a bad host causes, as the index job_attempts_suspect
// has them.
const SuspectSQL = "a.failure_class IN ('MODEL_CRASH', 'DEFECTIVE_RESULT')"

// SuspectHost is a host on which jobs failed that failed nowhere else.
type SuspectHost struct {
	Host
	Jobs int `bun:"jobs"`
}

// ListCrashingHosts returns the hosts on which the models of at least least jobs crashed within
// window, and since the host was last quarantined or released. Jobs that crashed on another host,
// too, do not count: they may be to blame. A host is left out unless more other hosts that can
// run one of its models are in use than are in quarantine for crashes: the model may be to blame.
func ListCrashingHosts(ctx context.Context, db bun.IDB, least int, window time.Duration) (found []SuspectHost, err error) {
	err = db.NewRaw(`
		WITH crashes AS MATERIALIZED (
			SELECT DISTINCT w.provider, w.provider_instance_id, a.job_id, max(a.ended_at) AS ended_at
			FROM job_attempts a JOIN workers w ON w.id = a.worker_id
			WHERE `+SuspectSQL+` AND a.ended_at > (SELECT clock_timestamp()) - make_interval(secs => ?0)
			GROUP BY w.provider, w.provider_instance_id, a.job_id),
		suspects AS (
			SELECT c.provider, c.provider_instance_id, count(*) AS jobs
			FROM crashes c LEFT JOIN quarantines q USING (provider, provider_instance_id)
			WHERE c.ended_at > coalesce(q.changed_at, '-infinity')
				AND NOT EXISTS (SELECT FROM crashes o WHERE o.job_id = c.job_id
					AND (o.provider, o.provider_instance_id) <> (c.provider, c.provider_instance_id))
			GROUP BY c.provider, c.provider_instance_id HAVING count(*) >= ?1)
		SELECT s.* FROM suspects s
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE o.quarantined_until > clock_timestamp() IS NOT TRUE) AS used,
				count(*) FILTER (WHERE o.quarantined_until > clock_timestamp() AND o.quarantine_cause = 'CRASHES') AS crashing
			FROM workers o
			WHERE o.ended_at IS NULL AND o.status IN ('IDLE', 'BUSY')
				AND (o.provider, o.provider_instance_id) <> (s.provider, s.provider_instance_id)
				AND o.models && (SELECT array_agg(DISTINCT m) FROM workers h, unnest(h.models) AS m
					WHERE h.provider = s.provider AND h.provider_instance_id = s.provider_instance_id AND h.ended_at IS NULL)) others
		WHERE others.used > others.crashing
		ORDER BY s.jobs DESC, s.provider, s.provider_instance_id`, window.Seconds(), least).Scan(ctx, &found)
	return found, err
}

// FaultyHost is a host with a GPU that reported an error of its hardware.
type FaultyHost struct {
	Host
	GPU            int   `bun:"gpu"`
	Xid            int   `bun:"xid"` // 0 if it is none of the fatal ones
	ECCUncorrected int64 `bun:"ecc"`
}

// ListFaultyHosts returns the hosts whose GPUs had an XID among fatal, or a memory error that could
// not be corrected, and that are not in quarantine. A host that an operator released counts again
// once another worker registers there.
func ListFaultyHosts(ctx context.Context, db bun.IDB, fatal []int) (found []FaultyHost, err error) {
	err = db.NewRaw(`
		SELECT DISTINCT ON (w.provider, w.provider_instance_id) w.provider, w.provider_instance_id, g.index AS gpu,
			CASE WHEN g.xid IN (?0) THEN g.xid ELSE 0 END AS xid, coalesce(g."eccUncorrected", 0)::bigint AS ecc
		FROM workers w
		JOIN worker_gpus s ON s.worker_id = w.id
		CROSS JOIN LATERAL jsonb_to_recordset(s.gpus) AS g (index integer, "eccUncorrected" float8, xid integer)
		LEFT JOIN quarantines q ON q.provider = w.provider AND q.provider_instance_id = w.provider_instance_id
		WHERE w.ended_at IS NULL AND (g.xid IN (?0) OR g."eccUncorrected" > 0)
			AND (q.until <= clock_timestamp() OR q.until IS NULL AND coalesce(q.changed_at, '-infinity') < w.registered_at)
		ORDER BY w.provider, w.provider_instance_id, g.index`, bun.List(fatal)).Scan(ctx, &found)
	return found, err
}

// ExtendOldestQuarantines keeps the quarantine of one host from ending in each pool that asks for it: of
// those that were quarantined without an operator, the one that has been for longest. It returns
// how many it kept.
func ExtendOldestQuarantines(ctx context.Context, tx bun.Tx, longer time.Duration) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		WITH held AS (
			SELECT DISTINCT ON (w.pool_id) q.provider, q.provider_instance_id FROM quarantines q
			JOIN workers w ON w.provider = q.provider AND w.provider_instance_id = q.provider_instance_id AND w.ended_at IS NULL
			JOIN pools p ON p.id = w.pool_id AND p.hold_on_failure
			WHERE q.until > clock_timestamp() AND q.cause <> 'OPERATOR'
			ORDER BY w.pool_id, q.changed_at, q.provider_instance_id)
		UPDATE quarantines q SET until = clock_timestamp() + make_interval(secs => ?0)
		FROM held h WHERE q.provider = h.provider AND q.provider_instance_id = h.provider_instance_id
			AND q.until < clock_timestamp() + make_interval(secs => ?0 / 2)`, longer.Seconds()).Exec(ctx))
}

// ListReplaceable returns the idle workers whose hosts were quarantined without an operator, and
// whose machines these providers can replace. In a pool that holds a machine that failed, the one
// that failed first stays.
func ListReplaceable(ctx context.Context, db bun.IDB, providers []string) (found []WorkerID, err error) {
	err = db.NewRaw(`
		SELECT w.id FROM workers w
		JOIN pools p ON p.id = w.pool_id
		JOIN quarantines q ON q.provider = w.provider AND q.provider_instance_id = w.provider_instance_id
		WHERE w.ended_at IS NULL AND w.status = 'IDLE' AND w.provider = ANY (?::text[])
			AND q.until > clock_timestamp() AND q.cause <> 'OPERATOR'
			AND NOT (p.hold_on_failure AND w.provider_instance_id = (
				SELECT h.provider_instance_id FROM quarantines h
				JOIN workers o ON o.provider = h.provider AND o.provider_instance_id = h.provider_instance_id AND o.ended_at IS NULL
				WHERE o.pool_id = p.id AND h.until > clock_timestamp() AND h.cause <> 'OPERATOR'
				ORDER BY h.changed_at, h.provider_instance_id LIMIT 1))
		ORDER BY w.id`, postgres.TextArray(providers)).Scan(ctx, &found)
	return found, err
}

// DeleteOldQuarantines forgets up to limit hosts that have not been in quarantine for so long, and
// returns how many.
func DeleteOldQuarantines(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM quarantines WHERE (provider, provider_instance_id) IN (
			SELECT provider, provider_instance_id FROM quarantines
			WHERE greatest(until, changed_at) < clock_timestamp() - make_interval(secs => ?0)
			LIMIT ?1)`, age.Seconds(), limit).Exec(ctx))
}
