package models

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// Changed is a row as it shall be, and as it was when it was locked.
type Changed[T any] struct{ Was, Is *T }

// Writes are what a transaction does to rows that it has locked, and the rows that
// it adds to them.
type Writes struct {
	// Workers and Jobs have to be in the state in which they were locked, Attempts must
	// not be over, and have their token.
	Workers  []Changed[Worker]
	Jobs     []Changed[Job]
	Attempts []*Attempt
	// Begun are attempts that begin.
	Begun []*Attempt
	// Issued are keys for uploads.
	Issued []*IssuedUpload
	// Artifacts are of issued keys, and of no other artifact's.
	Artifacts []*Artifact
	// Events have a Seq that was counted on the locked job.
	Events []*JobEvent
	// Count is of accounts that are locked with it.
	Count Count
	// Starts are the turns of a lane that the attempts which begin take.
	Starts Starts
}

// ErrNoRoom means that an account has no room for what Count adds to it.
var ErrNoRoom = errors.New("the account has no room")

//go:embed sql/write.sql
var writeSQL string

// Write writes it all in one statement. It returns ErrTurn, ErrNoRoom, or sql.ErrNoRows
// if another row is not as it has to be. The accounts are locked with it, after all
// other rows.
func (w *Writes) Write(ctx context.Context, tx bun.Tx) error {
	args, err := w.args()
	if err != nil {
		return fmt.Errorf("encode the rows: %w", err)
	}
	var workers, attempts, jobs, artifacts, lanes int
	var accounts rowScan[[]countedAccount]
	var left rowScan[[]leftLine]
	rows, err := run(ctx, tx, writeSQL, args)
	err = scan(rows, err, func(rows *sql.Rows) error {
		return rows.Scan(&workers, &attempts, &jobs, &artifacts, &accounts, &left, &lanes)
	})
	switch {
	case err != nil:
		return err
	case workers != len(w.Workers) || attempts != len(w.Attempts) || jobs != len(w.Jobs) || artifacts != len(w.Artifacts):
		return sql.ErrNoRows
	case len(*accounts.row) != len(w.Count.Accounts):
		return ErrNoRoom
	case len(*left.row) != len(w.Count.Left):
		return sql.ErrNoRows
	case w.Starts.Counted() && lanes != 1:
		return ErrTurn
	}
	w.Count.note(*accounts.row, *left.row)
	return nil
}

// args are the arguments of the statement.
func (w *Writes) args() (pgx.NamedArgs, error) {
	args := pgx.NamedArgs{"lane": nil, "promoted": w.Starts.Promoted, "starts": w.Starts.Jobs, "since_least": 0, "since_most": PromotedEvery - 1}
	if w.Starts.Counted() {
		args["lane"] = string(w.Starts.Lane)
	}
	if w.Starts.Promoted && w.Starts.Turn {
		args["since_least"] = PromotedEvery - 1 // out of turn none of the lane's own jobs was there
	}
	var errs []error
	for name, rows := range map[string]any{
		"workers":  column(w.Workers, func(c Changed[Worker]) was[Worker] { return was[Worker]{string(c.Was.Status), c.Is} }),
		"jobs":     column(w.Jobs, func(c Changed[Job]) was[Job] { return was[Job]{string(c.Was.Status), c.Is.unsaid()} }),
		"attempts": w.Attempts, "begun": w.Begun, "issued": w.Issued, "artifacts": w.Artifacts, "events": w.Events,
		"accounts": w.Count.Accounts, "left": w.Count.Left,
	} {
		text, err := rowsArg(rows)
		args[name], errs = text, append(errs, err)
	}
	return args, errors.Join(errs...)
}

// was is a changed row for the statement, with the status in which it was locked.
type was[T any] struct {
	Was string `json:"was"`
	Row *T     `json:"row"`
}

// unsaid is the job without what a write leaves as it is and may be large.
func (j *Job) unsaid() *Job {
	c := *j
	c.Params, c.Metadata = nil, nil
	return &c
}
