package postgres

import (
	"context"

	"github.com/uptrace/bun"
)

// AwaitSQL is a column for a SELECT that finds what an earlier call wrote, so that the answer to that call can be repeated.
//
// The row can be on this server only: its commit waits for a standby, and PostgreSQL shows the row to others as soon as the
// first caller has given up waiting. The answer would promise what a promotion of the standby loses. If commits wait for a
// standby, the column writes a record of a few bytes, after that of the row; so the end of the transaction waits as that of the
// row did. Otherwise, and for a row that is not found, it does nothing.
const AwaitSQL = "CASE WHEN current_setting('synchronous_standby_names') <> '' THEN pg_logical_emit_message(true, 'reelay', '') END AS awaits"

// Await adds AwaitSQL to the columns of a query, which must name the others.
func Await(q *bun.SelectQuery) *bun.SelectQuery { return q.ColumnExpr(AwaitSQL) }

// AwaitStandby waits, as a commit does, until a standby has all that is visible now. It is for answers that repeat what was
// read before.
func AwaitStandby(ctx context.Context, db bun.IDB) error {
	_, err := db.NewRaw("SELECT " + AwaitSQL).Exec(ctx)
	return err
}
