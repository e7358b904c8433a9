package models

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Invariant names a condition that the rows must always meet. The query for its violations is
// sql/invariants/<name>.sql: each row is the id of a row that breaks it. Among its arguments
// are those of Examination, and examined holds the jobs whose history is read.
type Invariant string

//go:embed sql/invariants
var invariantsSQL embed.FS

// Invariants lists all of them.
var Invariants = func() (all []Invariant) {
	files, _ := invariantsSQL.ReadDir("sql/invariants") // embedded, so it is there
	for _, file := range files {
		all = append(all, Invariant(strings.TrimSuffix(file.Name(), ".sql")))
	}
	return all
}()

// Examination bounds a search for violations, and passes in the domain's rules.
type Examination struct {
	// Jobs bounds the queries that read the history of jobs: to that many of the newest jobs,
	// and that many of those that have not ended. 0 means all jobs.
	Jobs int
	// Edges are the transitions that are allowed, as FROM>TO. FROM is empty for the first
	// state of a run.
	Edges []string
	// Lanes are the lanes with a wait target. Waits says for how many seconds a job may be
	// queued in each of them while a worker is idle.
	Lanes []Tier
	Waits []float64
}

// Violations is the number of rows that break an invariant, and the ids of some of them.
type Violations struct {
	IDs   []string
	Count int
}

// FindViolations returns the violations of an invariant, with at most limit ids.
func FindViolations(ctx context.Context, db bun.IDB, which Invariant, e Examination, limit int) (Violations, error) {
	broken, err := invariantsSQL.ReadFile("sql/invariants/" + string(which) + ".sql")
	if err != nil {
		return Violations{}, err
	}
	var jobs any // NULL is no limit
	if e.Jobs > 0 {
		jobs = e.Jobs
	}
	v := Violations{}
	rows, err := postgres.Run(ctx, db, fmt.Sprintf(violationsSQL, broken), pgx.NamedArgs{
		"jobs": jobs, "edges": e.Edges, "lanes": e.Lanes, "waits": e.Waits, "limit": limit,
	})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id, &v.Count)
		v.IDs = append(v.IDs, id)
		return err
	})
	return v, err
}

// violationsSQL has a place for the query of an invariant.
const violationsSQL = `
	WITH examined AS (
		SELECT * FROM jobs WHERE id IN (
			(SELECT id FROM jobs ORDER BY id DESC LIMIT @jobs)
			UNION
			(SELECT id FROM jobs WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING') LIMIT @jobs))),
	broken AS (%s)
	SELECT id, count(*) OVER () AS count FROM (SELECT DISTINCT id FROM broken) b ORDER BY id LIMIT @limit`

// BoundStatements makes each later statement of the transaction fail after limit.
func BoundStatements(ctx context.Context, tx bun.Tx, limit time.Duration) error {
	_, err := tx.NewRaw("SELECT set_config('statement_timeout', '?', true)", limit.Milliseconds()).Exec(ctx)
	return err
}

// IsStatementTimeout reports whether a statement failed because it took too long.
func IsStatementTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "57014"
}

// IsUndefinedTable reports whether a statement failed because the schema lacks a table.
func IsUndefinedTable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "42P01"
}
