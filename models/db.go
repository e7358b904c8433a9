// Package models holds the rows of the database and one function per query.
//
// Ordinary statements use bun. The few frequent ones are files in sql/, one statement each; two
// continue next_heads.sql. Their headers say what they lock, in which order, and what they return.
// No function here opens a transaction: each runs on the bun.IDB that jobs passes in.
//
// Functions that lock rows say so in their names. Every transaction locks in one order:
// worker, job (its dependencies FOR SHARE), attempt, workflow, account last; rows of one kind in
// the order of their ids. A submit keeps other submits of its account out before all that.
package models

import (
	"context"
	"database/sql"
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

// mustChange returns sql.ErrNoRows if a statement changed no row.
func mustChange(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return sql.ErrNoRows
}

// textArray makes a text[] argument from strings of any type.
func textArray[T ~string](values []T) any {
	plain := make([]string, len(values))
	for i, v := range values {
		plain[i] = string(v)
	}
	return pgdialect.Array(plain)
}

// uuidArray makes an argument from ids. The statement casts it to uuid[].
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

// TryLock takes an advisory lock until the transaction ends, and reports whether it got it.
func TryLock(ctx context.Context, tx bun.Tx, key int64) (bool, error) {
	var mine bool
	err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", key).Scan(ctx, &mine)
	return mine, err
}

// nullable returns nil, which is NULL, for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
