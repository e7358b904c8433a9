package models

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// prepared runs a statement that each connection parses and plans once, for all
// arguments. They travel apart from it, arrays as such: for the statements that
// carry whole batches, or come often. All others are planned for what they say.
//
// A plan that was made while tables were empty stays until they are analyzed: each
// statement has to be such that no other index could seem as good as the one that
// it is for. OFFSET 0 keeps a condition out of a choice; whole tables are never
// read, see Open.
func prepared(ctx context.Context, db bun.IDB, query string, args ...any) (*sql.Rows, error) {
	args = append([]any{pgx.QueryExecModeCacheStatement}, args...)
	switch db := db.(type) {
	case bun.Tx:
		return db.Tx.QueryContext(ctx, query, args...)
	case *bun.DB:
		return db.DB.QueryContext(ctx, query, args...)
	}
	return nil, fmt.Errorf("no statements with arguments on a %T", db)
}

// scan reads all rows. each may be nil, of a statement that returns none.
func scan(rows *sql.Rows, err error, each func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// column makes an argument of one value of each row.
func column[R, V any](rows []R, of func(R) V) []V {
	values := make([]V, len(rows))
	for i, row := range rows {
		values[i] = of(row)
	}
	return values
}

// uuidOf is an id as PostgreSQL holds it; nil if there is none.
func uuidOf[T ~string](id T) *[16]byte {
	const length = 36
	if len(id) < length {
		return nil
	}
	parsed, err := uuid.Parse(string(id[len(id)-length:]))
	if err != nil {
		return nil
	}
	return (*[16]byte)(&parsed)
}
