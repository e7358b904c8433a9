package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// Surroundings is PostgreSQL's configuration and the state of the background work.
type Surroundings struct {
	Now time.Time `bun:"now"`

	Version           int    `bun:"version"`
	Fsync             string `bun:"fsync"`
	FullPageWrites    string `bun:"full_page_writes"`
	SynchronousCommit string `bun:"synchronous_commit"`
	Connections       int    `bun:"connections"`
	MaxConnections    int    `bun:"max_connections"`
	// InvalidIndexes are indexes that a failed migration left behind.
	InvalidIndexes []string `bun:"invalid_indexes,array"`

	// NextMonth reports whether the partition for next month's events exists.
	NextMonth bool `bun:"next_month"`
	// OldestMessage is how many seconds the oldest outbox message has waited.
	OldestMessage float64 `bun:"oldest_message"`
	Messages      int     `bun:"messages"`
	DeadLetters   int     `bun:"dead_letters"`
	// Undeletable counts the objects whose deletion failed many times.
	Undeletable int `bun:"undeletable"`
	// SilentWorkers are idle or draining workers without a sign of life for minutes.
	SilentWorkers []string `bun:"silent_workers,array"`
}

// undeletableTries is the number of tries after which an object counts as undeletable.
const undeletableTries = 5

// outboxSample bounds the count of outbox messages.
const outboxSample = 10_000

// GetSurroundings reads the surroundings.
func GetSurroundings(ctx context.Context, db bun.IDB) (*Surroundings, error) {
	s := new(Surroundings)
	err := db.NewRaw(`
		SELECT clock_timestamp() AS now,
			current_setting('server_version_num')::int / 10000 AS version,
			current_setting('fsync') AS fsync,
			current_setting('full_page_writes') AS full_page_writes,
			current_setting('synchronous_commit') AS synchronous_commit,
			(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
			current_setting('max_connections')::int AS max_connections,
			(SELECT coalesce(array_agg(i.indexrelid::regclass::text), '{}') FROM pg_index i
				JOIN pg_class c ON c.oid = i.indexrelid
				WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace) AS invalid_indexes,
			to_regclass('job_events_' || to_char((now() AT TIME ZONE 'UTC') + interval '1 month', 'YYYY_MM')) IS NOT NULL AS next_month,
			(SELECT coalesce(extract(epoch FROM clock_timestamp() - created_at), 0)
				FROM (SELECT min(created_at) AS created_at FROM (SELECT created_at FROM outbox ORDER BY id LIMIT 1) o) o) AS oldest_message,
			(SELECT count(*) FROM (SELECT FROM outbox LIMIT ?0) o) AS messages,
			(SELECT count(*) FROM dead_letters WHERE resolved_at IS NULL AND `+OperatorsSQL+`) AS dead_letters,
			(SELECT count(*) FROM object_deletions WHERE tries >= ?1) AS undeletable,
			(SELECT coalesce(array_agg('wrk_' || id), '{}') FROM workers
				WHERE ended_at IS NULL AND status IN ('IDLE', 'DRAINING') AND last_heartbeat_at < clock_timestamp() - interval '5 minutes') AS silent_workers`,
		outboxSample, undeletableTries).Scan(ctx, s)
	return s, err
}

// Absence is a kind of process that has not recorded its presence for too long.
type Absence struct {
	Kind    string  `bun:"kind"`
	Seconds float64 `bun:"seconds"`
}

// ListAbsences returns the kinds of process that have not recorded their presence for longer
// than gap.
func ListAbsences(ctx context.Context, db bun.IDB, gap time.Duration) ([]Absence, error) {
	var away []Absence
	err := db.NewRaw(`
		SELECT kind, extract(epoch FROM clock_timestamp() - seen_at) AS seconds FROM presence
		WHERE clock_timestamp() - seen_at > make_interval(secs => ?) ORDER BY kind`, gap.Seconds()).Scan(ctx, &away)
	return away, err
}

// PointedObject is an object that a job's pointer names, as its row describes it.
type PointedObject struct {
	JobID      JobID        `bun:"job_id"`
	ArtifactID ArtifactID   `bun:"artifact_id"`
	Type       ArtifactType `bun:"type"`
	ObjectKey  string       `bun:"object_key"`
	SizeBytes  int64        `bun:"size_bytes"`
	Checksum   string       `bun:"checksum"`
}

// ListPointedObjects returns the objects that the checkpoint and result pointers of up to
// limit jobs name, newest job first, for jobs older than before, or from the newest if it is
// empty. next is the value of before for the next call, or empty at the end.
func ListPointedObjects(ctx context.Context, db bun.IDB, before JobID, limit int) (found []PointedObject, next JobID, err error) {
	var jobs []JobID
	q := db.NewSelect().Model((*Job)(nil)).Column("id").Order("j.id DESC").Limit(int64(limit))
	if before != "" {
		q = q.Where("j.id < ?", before)
	}
	if err := q.Scan(ctx, &jobs); err != nil || len(jobs) == 0 {
		return nil, "", err
	}
	err = db.NewRaw(`
		SELECT j.id AS job_id, ar.id AS artifact_id, ar.type, ar.object_key, ar.size_bytes, ar.checksum
		FROM jobs j JOIN artifacts ar ON ar.id IN (j.latest_checkpoint_id, j.result_id)
		WHERE j.id IN (?) ORDER BY j.id DESC, ar.id`, bun.List(jobs)).Scan(ctx, &found)
	if len(jobs) == limit {
		next = jobs[len(jobs)-1]
	}
	return found, next, err
}

// IsPointedAt reports whether the job's pointers still name the artifact.
func IsPointedAt(ctx context.Context, db bun.IDB, job JobID, artifact ArtifactID) (bool, error) {
	var still bool
	err := db.NewRaw("SELECT EXISTS (SELECT FROM jobs WHERE id = ?0 AND ?1 IN (latest_checkpoint_id, result_id))",
		job, artifact).Scan(ctx, &still)
	return still, err
}

// ListStillQueued returns the queued jobs among these.
func ListStillQueued(ctx context.Context, db bun.IDB, ids []JobID) ([]JobID, error) {
	var queued []JobID
	if len(ids) == 0 {
		return nil, nil
	}
	err := db.NewRaw("SELECT id FROM jobs WHERE id IN (?) AND status = 'QUEUED'", bun.List(ids)).Scan(ctx, &queued)
	return queued, err
}
