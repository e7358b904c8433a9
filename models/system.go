package models

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"
)

// Database describes the PostgreSQL server.
type Database struct {
	Version string `bun:"version"`
	// StartedAt is when the server started.
	StartedAt time.Time `bun:"started_at"`
	// SizeBytes is the size of Reelay's database on disk.
	SizeBytes int64 `bun:"size_bytes"`
	// Connections are open to the whole server, of MaxConnections.
	Connections    int `bun:"connections"`
	MaxConnections int `bun:"max_connections"`
	// Standbys replicate the server. StandbyLagSeconds is how far the slowest is behind: nil
	// without standbys, or if it is not known.
	Standbys          int      `bun:"standbys"`
	StandbyLagSeconds *float64 `bun:"standby_lag"`
}

// ReadDatabase describes the PostgreSQL server. A role that may not see the standbys counts
// them and does not know their lag.
func ReadDatabase(ctx context.Context, db bun.IDB) (*Database, error) {
	d := new(Database)
	err := db.NewRaw(`
		SELECT current_setting('server_version') AS version, pg_postmaster_start_time() AS started_at,
			pg_database_size(current_database()) AS size_bytes,
			(SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database) AS connections,
			current_setting('max_connections')::int AS max_connections,
			(SELECT count(*) FROM pg_stat_replication) AS standbys,
			(SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication) AS standby_lag`).Scan(ctx, d)
	return d, err
}

// Process is a running process of Reelay, or all of a kind.
type Process struct {
	Kind ProcessKind `bun:"kind"`
	// ID identifies an API process; it is the zero UUID for control, whose processes share one
	// row.
	ID     uuid.UUID `bun:"id"`
	SeenAt time.Time `bun:"seen_at"`
	// Version, Host and StartedAt are empty for processes of versions that do not tell them.
	Version   string    `bun:"version"`
	Host      string    `bun:"host"`
	StartedAt time.Time `bun:"started_at"`
}

// DeleteReplica removes a process that ends.
func DeleteReplica(ctx context.Context, db bun.IDB, id uuid.UUID) error {
	_, err := db.NewRaw("DELETE FROM replicas WHERE id = ?", id).Exec(ctx)
	return err
}

// ListProcesses returns the processes that were seen in the last hour, by kind and the newest
// first. The processes of control that do not tell their version share one row.
func ListProcesses(ctx context.Context, db bun.IDB) (all []*Process, err error) {
	err = db.NewRaw(`
		WITH known AS (SELECT * FROM replicas WHERE seen_at > clock_timestamp() - interval '1 hour')
		SELECT kind, id, seen_at, version, host, started_at FROM known
		UNION ALL
		SELECT 'api', id, seen_at, '', '', NULL FROM api_processes a
		WHERE seen_at > clock_timestamp() - interval '1 hour' AND NOT EXISTS (SELECT FROM known k WHERE k.id = a.id)
		UNION ALL
		SELECT kind, ?, least(seen_at, clock_timestamp()), '', '', NULL FROM presence p
		WHERE kind = ? AND NOT EXISTS (SELECT FROM known k WHERE k.kind = p.kind)
		ORDER BY kind, seen_at DESC LIMIT 100`, uuid.Nil, ProcessControl).Scan(ctx, &all)
	return all, err
}

// AgentVersion is a version of the agents, and how many workers have it.
type AgentVersion struct {
	Version string `bun:"version"`
	Workers int    `bun:"workers"`
}

// CountAgentVersions counts the workers that have not ended by the version of their agent, the
// most frequent first. Workers that boot have none yet.
func CountAgentVersions(ctx context.Context, db bun.IDB) (counts []*AgentVersion, err error) {
	err = db.NewSelect().Model((*Worker)(nil)).ColumnExpr("w.agent_version AS version, count(*) AS workers").
		Where("w.ended_at IS NULL AND w.status <> ?",
			WorkerBooting).Group("w.agent_version").OrderExpr("workers DESC, version").Limit(50).Scan(ctx, &counts)
	return counts, err
}
