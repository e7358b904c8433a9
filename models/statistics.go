package models

import (
	"context"

	"github.com/uptrace/bun"
)

// leastGrowth is how many rows a table must gain before it is analyzed early.
const leastGrowth = 500

// ListGrownTables returns the tables that have more than twice the rows that PostgreSQL's
// statistics assume.
func ListGrownTables(ctx context.Context, db bun.IDB) (tables []string, err error) {
	err = db.NewRaw(`
		SELECT c.relname FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
		WHERE s.schemaname = current_schema() AND s.n_live_tup > 2 * greatest(c.reltuples, 0) + ?
		ORDER BY c.relname`, leastGrowth).Scan(ctx, &tables)
	return tables, err
}

// Analyze updates the planner's statistics of a table, and makes all connections plan their
// statements on it again. It skips a table that is already being analyzed.
func Analyze(ctx context.Context, db bun.IDB, table string) error {
	_, err := db.NewRaw("ANALYZE (SKIP_LOCKED) ?", bun.Ident(table)).Exec(ctx)
	return err
}
