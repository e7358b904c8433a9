// Package postgres opens connections to PostgreSQL, tells its outages from wrong statements, and
// turns rows and columns into arguments of statements and back.
package postgres

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// Now returns the time of PostgreSQL's clock. All durable decisions use this clock.
func Now(ctx context.Context, db bun.IDB) (time.Time, error) {
	var now time.Time
	err := db.NewRaw("SELECT clock_timestamp()").Scan(ctx, &now)
	return now, err
}

// MustChange returns sql.ErrNoRows if a statement changed no row.
func MustChange(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return sql.ErrNoRows
}

// TextArray makes a text[] argument from strings of any type.
func TextArray[T ~string](values []T) any {
	plain := make([]string, len(values))
	for i, v := range values {
		plain[i] = string(v)
	}
	return pgdialect.Array(plain)
}

// UUIDArray makes an argument from ids. The statement casts it to uuid[].
func UUIDArray[T ~string](ids []T) any {
	plain := make([]string, len(ids))
	for i, id := range ids {
		_, plain[i], _ = strings.Cut(string(id), "_")
	}
	return pgdialect.Array(plain)
}

// FloatArray makes a double precision[] argument.
func FloatArray(values []float64) any { return pgdialect.Array(values) }

// Lock takes an advisory lock until the transaction ends.
func Lock(ctx context.Context, tx bun.Tx, key int64) error {
	_, err := tx.NewRaw("SELECT pg_advisory_xact_lock(?)", key).Exec(ctx)
	return err
}

// TryLock takes an advisory lock until the transaction ends, and reports whether it got it.
func TryLock(ctx context.Context, tx bun.Tx, key int64) (bool, error) {
	var mine bool
	err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", key).Scan(ctx, &mine)
	return mine, err
}

// Nullable returns nil, which is NULL, for an empty text.
func Nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Affected returns how many rows a statement changed.
func Affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

func NullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// BatchRows is how many rows one statement writes, to bound its length and its time.
const BatchRows = 500

// InBatches passes rows to write in parts of at most BatchRows.
func InBatches[T any](rows []T, write func([]T) error) error {
	for some := range slices.Chunk(rows, BatchRows) {
		if err := write(some); err != nil {
			return err
		}
	}
	return nil
}
