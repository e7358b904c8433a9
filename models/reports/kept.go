package reports

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

// Kind is what is kept for some time.
type Kind string

// The kinds. Times of jobs, and of what belongs to them, count from the end of the job.
const (
	KeptJobs        Kind = "JOBS"
	KeptEvents      Kind = "EVENTS"
	KeptDeadLetters Kind = "DEAD_LETTERS"
	// KeptFiles are videos, pictures, checkpoints, logs and inputs: each is an object in the store.
	KeptFiles Kind = "FILES"
	// KeptDeletions are objects that no row names any more, until the store has deleted them.
	KeptDeletions Kind = "DELETIONS"
	KeptWorkers   Kind = "WORKERS"
	KeptMachines  Kind = "MACHINES"
	KeptWebhooks  Kind = "WEBHOOKS"
	KeptPrices    Kind = "POOL_PRICES"
	KeptLedger    Kind = "LEDGER"
	KeptAudit     Kind = "AUDIT"
)

// Kinds are all kinds.
var Kinds = []Kind{KeptJobs, KeptEvents, KeptDeadLetters, KeptFiles, KeptDeletions, KeptWorkers, KeptMachines, KeptWebhooks, KeptPrices,
	KeptLedger, KeptAudit}

// sources say, for each kind, which rows are of it, whose estimate of PostgreSQL counts them (a table, or an index with
// the same condition), and since when the oldest is kept. Each reads the end of an index, or few rows.
var sources = map[Kind]struct{ rows, counted, oldest string }{
	KeptJobs:        {"jobs WHERE completed_at IS NOT NULL", "jobs_over", "SELECT min(completed_at) FROM jobs WHERE completed_at IS NOT NULL"},
	KeptEvents:      {"job_events", "job_events", "SELECT created_at FROM job_events ORDER BY job_id, seq LIMIT 1"},
	KeptDeadLetters: {"dead_letters", "dead_letters", "SELECT created_at FROM dead_letters ORDER BY id LIMIT 1"},
	KeptFiles:       {"artifacts", "artifacts", "SELECT created_at FROM artifacts ORDER BY id LIMIT 1"},
	KeptDeletions:   {"object_deletions", "object_deletions", "SELECT min(doomed_at) FROM (SELECT doomed_at FROM object_deletions ORDER BY next_at LIMIT 1000) x"},
	KeptWorkers:     {"workers WHERE ended_at IS NOT NULL", "workers_over", "SELECT min(ended_at) FROM workers WHERE ended_at IS NOT NULL"},
	KeptMachines:    {"machines WHERE gone_at IS NOT NULL", "machines_over", "SELECT min(billed_until) FROM machines WHERE gone_at IS NOT NULL"},
	KeptWebhooks:    {"webhook_events", "webhook_events", "SELECT min(created_at) FROM webhook_events"},
	KeptPrices:      {"pool_prices", "pool_prices", "SELECT min(first.since) FROM pools p CROSS JOIN LATERAL (SELECT since FROM pool_prices WHERE pool_id = p.id ORDER BY since LIMIT 1) first"},
	KeptLedger:      {"ledger", "ledger", "SELECT at FROM ledger ORDER BY id LIMIT 1"},
	KeptAudit:       {"audit_log", "audit_log", "SELECT at FROM audit_log ORDER BY id LIMIT 1"},
}

// Kept is how much of a kind is kept.
type Kept struct {
	Kind Kind `bun:"kind"`
	// Rows is exact up to Examined, and otherwise PostgreSQL's estimate.
	Rows int64 `bun:"rows"`
	// OldestAt is the time from which the age of the oldest counts, as far as one column says it; zero without rows.
	OldestAt time.Time `bun:"oldest_at"`
}

// Exact reports whether the rows were counted.
func (k *Kept) Exact() bool { return k.Rows <= Examined }

// ListKept returns how much is kept of all kinds, in their order.
func ListKept(ctx context.Context, db bun.IDB) (found []*Kept, err error) {
	parts := make([]string, len(Kinds))
	for i, kind := range Kinds {
		of := sources[kind]
		parts[i] = `
			SELECT '` + string(kind) + `' AS kind, (SELECT count(*) FROM (SELECT FROM ` + of.rows + ` LIMIT ?0 + 1) counted_rows) AS n,
				(` + of.oldest + `) AS oldest_at, '` + of.counted + `' AS counted`
	}
	err = db.NewRaw(`
		SELECT kind, oldest_at, CASE WHEN n <= ?0 THEN n ELSE greatest(n, (
			SELECT sum(reltuples)::bigint FROM pg_class
			WHERE oid = to_regclass(counted) OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(counted)))) END AS rows
		FROM (`+strings.Join(parts, " UNION ALL ")+`) found`, Examined).Scan(ctx, &found)
	return found, err
}
