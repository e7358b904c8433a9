// Package migrations is the database schema, step by step. The first steps, of 20261127, are
// the baseline: the schema of version 0.1.0, one file per topic, with each table in one piece.
//
// From there on the steps only grow: no file changes or goes, and a change of the schema is a
// new step that sorts after all others. Steps only go forward, and run while older processes use
// the database. So an index on a table with rows is created CONCURRENTLY, in a file without .tx.
// in its name, and a file that alters such a table sets a lock_timeout.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/migrate"
)

//go:embed *.sql
var files embed.FS

// lockKey is the advisory lock that lets one process migrate at a time.
const lockKey = 0x7265656c6179

// ErrUnreleased means that the database's schema is older than 0.1.0.
var ErrUnreleased = errors.New("this database was made by a development version before 0.1.0, whose schema cannot be brought up to date; " +
	"create a new database, or give `reelay up` another --data folder")

// Run brings the schema of db up to date and returns the names of the steps that it took. Any
// number of processes can call it at once: one migrates, the others wait and then find nothing
// to do. It returns ErrUnreleased, and changes nothing, if the schema is older than 0.1.0.
func Run(ctx context.Context, db *bun.DB) ([]string, error) {
	steps := migrate.NewMigrations()
	if err := steps.Discover(files); err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}

	// bun's own lock is a row in a table that it creates without a lock, and it does not wait.
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close()
	if err := lock(ctx, conn); err != nil {
		return nil, fmt.Errorf("lock the schema: %w", err)
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(?)", lockKey)

	migrator := migrate.NewMigrator(db, steps, migrate.WithMarkAppliedOnSuccess(true))
	if err := migrator.Init(ctx); err != nil {
		return nil, fmt.Errorf("prepare the migration table: %w", err)
	}
	if err := refuseUnreleased(ctx, migrator, steps); err != nil {
		return nil, err
	}
	group, err := migrator.Migrate(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	var names []string
	for _, m := range group.Migrations {
		names = append(names, m.Name)
	}
	return names, nil
}

// refuseUnreleased returns ErrUnreleased if the database has a step older than
// the first of this program.
func refuseUnreleased(ctx context.Context, migrator *migrate.Migrator, steps *migrate.Migrations) error {
	taken, err := migrator.AppliedMigrations(ctx)
	if err != nil {
		return fmt.Errorf("read the migration table: %w", err)
	}
	first := steps.Sorted()[0].Name
	for _, step := range taken {
		if step.Name < first {
			return ErrUnreleased
		}
	}
	return nil
}

// lockPause is the delay between two tries to get the lock.
const lockPause = 100 * time.Millisecond

// lock polls for the lock until it gets it. A statement that waited for the lock would hold a
// snapshot, and CREATE INDEX CONCURRENTLY in the process that has the lock would wait for that
// snapshot: a deadlock.
func lock(ctx context.Context, conn bun.Conn) error {
	for {
		var mine bool
		if err := conn.NewRaw("SELECT pg_try_advisory_lock(?)", lockKey).Scan(ctx, &mine); err != nil || mine {
			return err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Compare returns the steps of this program that the schema of db lacks, and the steps that it
// has from a newer program.
func Compare(ctx context.Context, db bun.IDB) (missing, unknown []string, err error) {
	steps := migrate.NewMigrations()
	if err := steps.Discover(files); err != nil {
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	var taken []string
	if err := db.NewRaw("SELECT name FROM bun_migrations").Scan(ctx, &taken); err != nil {
		return nil, nil, fmt.Errorf("read the migration table: %w", err)
	}
	var known []string
	for _, step := range steps.Sorted() {
		known = append(known, step.Name)
	}
	without := func(from, what []string) (rest []string) {
		for _, name := range from {
			if !slices.Contains(what, name) {
				rest = append(rest, name)
			}
		}
		return rest
	}
	return without(known, taken), without(taken, known), nil
}
