package models

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Changed is a row before and after a change. Was is the row as it was locked.
type Changed[T any] struct{ Was, Is *T }

// Writes holds a transaction's changes of rows that it has locked, and the rows that it adds.
type Writes struct {
	// Workers and Jobs must still be in the state in which they were locked. Attempts must not
	// have ended, and must still have their token.
	Workers  []Changed[Worker]
	Jobs     []Changed[Job]
	Attempts []*Attempt
	// Begun holds attempts that begin.
	Begun []*Attempt
	// Issued holds keys for uploads.
	Issued []*IssuedUpload
	// Artifacts have issued keys that no other artifact has.
	Artifacts []*Artifact
	// Events have the Seq that was counted on the locked job.
	Events []*JobEvent
	// Count changes the counters of accounts, which the write locks.
	Count Count
	// Starts counts the starts that the begun attempts take from a lane's turns.
	Starts Starts
}

// ErrNoRoom means that an account has no room for the jobs that Count adds.
var ErrNoRoom = errors.New("the account has no room")

// ErrAnswered means that a worker's request already had a lease.
var ErrAnswered = errors.New("the request had a lease already")

//go:embed sql/write.sql
var writeSQL string

// writeStatements caches the statements that writeSQL makes.
var writeStatements sync.Map // of the names of its parts: string

// writeStatement returns the statement of these parts.
func writeStatement(parts map[string]bool) string {
	key := strings.Join(slices.Sorted(maps.Keys(parts)), " ")
	if made, ok := writeStatements.Load(key); ok {
		return made.(string)
	}
	made := rendered(writeSQL, parts)
	writeStatements.Store(key, made)
	return made
}

// rendered returns a statement of the templates in sql/, with what these names turn on.
func rendered(text string, on map[string]bool) string {
	var made strings.Builder
	if err := template.Must(template.New("").Parse(text)).Execute(&made, on); err != nil {
		panic(err) // the templates are parts of the program
	}
	return made.String()
}

// Write writes everything in one statement. It returns ErrTurn, ErrNoRoom, ErrAnswered, or
// sql.ErrNoRows if another row is not in the expected state. It locks the accounts after all other rows.
func (w *Writes) Write(ctx context.Context, tx bun.Tx) error {
	parts, args, err := w.args()
	if err != nil {
		return fmt.Errorf("encode the rows: %w", err)
	}
	var workers, attempts, jobs, artifacts, lanes int
	var accounts postgres.RowScan[[]countedAccount]
	var left postgres.RowScan[[]leftLine]
	rows, err := postgres.Run(ctx, tx, writeStatement(parts), args)
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		return rows.Scan(&workers, &attempts, &jobs, &artifacts, &accounts, &left, &lanes)
	})
	switch {
	case postgres.Violates(err, "job_attempts_one_per_request"):
		return ErrAnswered
	case err != nil:
		return err
	case workers != len(w.Workers) || attempts != len(w.Attempts) || jobs != len(w.Jobs) || artifacts != len(w.Artifacts):
		return sql.ErrNoRows
	case len(*accounts.Row) != len(w.Count.Accounts):
		return ErrNoRoom
	case len(*left.Row) != len(w.Count.Left):
		return sql.ErrNoRows
	case w.Starts.Counted() && lanes != 1:
		return ErrTurn
	}
	w.Count.note(*accounts.Row, *left.Row)
	return nil
}

// args returns which parts the statement has, and their arguments.
func (w *Writes) args() (parts map[string]bool, args pgx.NamedArgs, err error) {
	parts, args = map[string]bool{}, pgx.NamedArgs{
		"worker_ids":  postgres.Column(w.Workers, func(c Changed[Worker]) *[16]byte { return postgres.UUID(c.Is.ID) }),
		"attempt_ids": postgres.Column(w.Attempts, func(a *Attempt) *[16]byte { return postgres.UUID(a.ID) }),
		"job_ids":     postgres.Column(w.Jobs, func(c Changed[Job]) *[16]byte { return postgres.UUID(c.Is.ID) }),
	}
	if w.Starts.Counted() {
		parts["lane"] = true
		args["lane"], args["promoted"], args["starts"] = string(w.Starts.Lane), w.Starts.Promoted, w.Starts.Jobs
		args["since_least"], args["since_most"] = 0, PromotedEvery-1
		if w.Starts.Promoted && w.Starts.Turn {
			args["since_least"] = PromotedEvery - 1 // without Turn, none of the lane's own jobs waits
		}
	}
	add := func(name string, n int, rows func() any) {
		if n == 0 || err != nil {
			return
		}
		parts[name] = true
		args[name], err = postgres.RowsArg(rows())
	}
	add("workers", len(w.Workers), func() any {
		return postgres.Column(w.Workers, func(c Changed[Worker]) was[Worker] { return was[Worker]{string(c.Was.Status), c.Is} })
	})
	add("jobs", len(w.Jobs), func() any {
		return postgres.Column(w.Jobs, func(c Changed[Job]) was[Job] { return was[Job]{string(c.Was.Status), c.Is.unsaid()} })
	})
	add("attempts", len(w.Attempts), func() any { return w.Attempts })
	add("begun", len(w.Begun), func() any { return w.Begun })
	add("issued", len(w.Issued), func() any { return w.Issued })
	add("artifacts", len(w.Artifacts), func() any { return w.Artifacts })
	add("events", len(w.Events), func() any { return w.Events })
	add("accounts", len(w.Count.Accounts), func() any { return w.Count.Accounts })
	add("left", len(w.Count.Left), func() any { return w.Count.Left })
	return parts, args, err
}

// was is a changed row with the status in which it was locked, for the statement.
type was[T any] struct {
	Was string `json:"was"`
	Row *T     `json:",inline"`
}

// unsaid returns the job without its large columns that no write changes.
func (j *Job) unsaid() *Job {
	c := *j
	c.Params, c.Metadata = nil, nil
	return &c
}
