// Package models is the database's rows and one function per query.
//
// Ordinary statements are bun's. The few that come often are files in sql/, one each:
// their headers say what they lock, in which order, and what they return. No function
// here opens a transaction: each takes the bun.IDB that jobs hands it.
//
// Functions that lock rows say so in their names. Every transaction keeps to one order of
// locks: worker, job (the jobs that it depends on FOR SHARE), attempt, account last; each
// kind in the order of ids.
package models

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// Now is PostgreSQL's clock, the only one that decides anything.
func Now(ctx context.Context, db bun.IDB) (time.Time, error) {
	var now time.Time
	err := db.NewRaw("SELECT clock_timestamp()").Scan(ctx, &now)
	return now, err
}

// mustChange turns an update that found no row into sql.ErrNoRows.
func mustChange(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return sql.ErrNoRows
}

// textArray makes a text[] argument of any kind of string.
func textArray[T ~string](values []T) any {
	plain := make([]string, len(values))
	for i, v := range values {
		plain[i] = string(v)
	}
	return pgdialect.Array(plain)
}

// uuidArray makes an argument of ids, to be cast to uuid[].
func uuidArray[T ~string](ids []T) any {
	plain := make([]string, len(ids))
	for i, id := range ids {
		_, plain[i], _ = strings.Cut(string(id), "_")
	}
	return pgdialect.Array(plain)
}

func floatArray(values []float64) any { return pgdialect.Array(values) }

// Lock takes an advisory lock until the transaction ends.
func Lock(ctx context.Context, tx bun.Tx, key int64) error {
	_, err := tx.NewRaw("SELECT pg_advisory_xact_lock(?)", key).Exec(ctx)
	return err
}

// TryLocks takes advisory locks until the transaction ends, and returns those that
// were free.
func TryLocks(ctx context.Context, tx bun.Tx, keys []int64) (mine []int64, err error) {
	err = tx.NewRaw("SELECT key FROM unnest(?::bigint[]) AS key WHERE pg_try_advisory_xact_lock(key)", pgdialect.Array(keys)).Scan(ctx, &mine)
	return mine, err
}

// TryLock takes an advisory lock until the transaction ends, and tells whether
// it was free.
func TryLock(ctx context.Context, tx bun.Tx, key int64) (bool, error) {
	var mine bool
	err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", key).Scan(ctx, &mine)
	return mine, err
}

// nullable makes NULL of an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
