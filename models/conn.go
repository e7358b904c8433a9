package models

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// conn is a connection whose transactions take fewer round trips: BEGIN goes with
// their first statement if that is a prepared one, and COMMIT with one that says to
// be the last. Others may wait for what the transaction has locked, and each trip is
// a time in which neither side works for it.
type conn struct {
	*stdlib.Conn
	due bool   // a transaction is to begin with the next statement
	tx  pgx.Tx // the one that is open; nil if there is none
}

// last marks, as an argument, a prepared statement with which its transaction is
// committed.
type last struct{}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts != (driver.TxOptions{}) {
		return c.Conn.BeginTx(ctx, opts)
	}
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	c.due, c.tx = true, nil
	return &transaction{ctx, c}, nil
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) == 0 || args[0].Value != pgx.QueryExecModeCacheStatement {
		if err := c.begin(ctx); err != nil {
			return nil, err
		}
		return c.Conn.QueryContext(ctx, query, asItStands(args))
	}
	commits := len(args) > 1 && args[1].Value == last{}
	if !c.due && !commits {
		return c.Conn.QueryContext(ctx, query, args)
	}
	var values []any
	for _, arg := range args[1:] {
		values = append(values, arg.Value)
	}
	if commits {
		values = values[1:]
	}
	return c.together(ctx, query, values, commits)
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c.Conn.ExecContext(ctx, query, asItStands(args))
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c.Conn.PrepareContext(ctx, query)
}

// asItStands marks a statement of bun's: it writes the arguments into the statement, so
// that no two are the same. To prepare and keep each would cost a second round trip
// and help nobody.
func asItStands(args []driver.NamedValue) []driver.NamedValue {
	return append([]driver.NamedValue{{Value: pgx.QueryExecModeExec}}, args...)
}

// begin begins a transaction that is due.
func (c *conn) begin(ctx context.Context) (err error) {
	if c.due {
		c.due = false
		c.tx, err = c.Conn.Conn().BeginTx(ctx, pgx.TxOptions{})
	}
	return err
}

// together runs a statement in one round trip with what comes before or after it,
// and reads all its rows: it is not known before whether that was committed.
func (c *conn) together(ctx context.Context, query string, args []any, commits bool) (driver.Rows, error) {
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	var batch pgx.Batch
	begins := c.due
	if begins {
		batch.BeginTx(pgx.TxOptions{})
	}
	batch.Queue(query, args...)
	if commits {
		batch.Queue("commit")
	}
	results := c.Conn.Conn().SendBatch(ctx, &batch)
	if begins {
		c.due, c.tx = false, results.Tx()
	}
	found, err := c.read(results, begins, commits)
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	if commits {
		c.tx = nil
	}
	return found, nil
}

// read reads the results of BEGIN, of the statement, and of COMMIT.
func (c *conn) read(results pgx.BatchResults, begins, commits bool) (*result, error) {
	if begins {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := &result{}
	fields := rows.FieldDescriptions()
	for _, f := range fields {
		found.columns = append(found.columns, f.Name)
	}
	types := c.Conn.Conn().TypeMap()
	for rows.Next() {
		row := make([]driver.Value, len(fields))
		for i, raw := range rows.RawValues() {
			if raw == nil {
				continue
			}
			if row[i], err = valueOf(types, fields[i], raw); err != nil {
				return nil, err
			}
		}
		found.rows = append(found.rows, row)
	}
	if err := rows.Err(); err != nil || !commits {
		return found, err
	}
	rows.Close()
	done, err := results.Exec()
	if err == nil && done.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return found, err
}

// valueOf is what database/sql is given for a value that is not NULL: what it knows
// nothing of, as a text.
func valueOf(types *pgtype.Map, f pgconn.FieldDescription, raw []byte) (driver.Value, error) {
	t, known := types.TypeForOID(f.DataTypeOID)
	if !known {
		return string(raw), nil
	}
	if _, isArray := t.Codec.(*pgtype.ArrayCodec); !isArray {
		return t.Codec.DecodeDatabaseSQLValue(types, t.OID, f.Format, raw)
	}
	array, err := t.Codec.DecodeValue(types, t.OID, f.Format, raw)
	if err != nil {
		return nil, err
	}
	text, err := types.Encode(t.OID, pgtype.TextFormatCode, array, nil)
	return string(text), err
}

// transaction is the one that a conn is in.
type transaction struct {
	ctx  context.Context
	conn *conn
}

// Commit implements driver.Tx. One that was committed with its last statement, or of
// which there was none, is over.
func (t *transaction) Commit() error {
	return t.end(pgx.Tx.Commit)
}

// Rollback implements driver.Tx.
func (t *transaction) Rollback() error {
	err := t.end(pgx.Tx.Rollback)
	if errors.Is(err, pgx.ErrTxClosed) { // it never began
		return nil
	}
	return err
}

func (t *transaction) end(how func(pgx.Tx, context.Context) error) error {
	tx := t.conn.tx
	t.conn.due, t.conn.tx = false, nil
	if tx == nil {
		return nil
	}
	return how(tx, t.ctx)
}

// result is rows that were read.
type result struct {
	columns []string
	rows    [][]driver.Value
}

// Columns implements driver.Rows.
func (r *result) Columns() []string { return r.columns }

// Close implements driver.Rows.
func (r *result) Close() error { return nil }

// Next implements driver.Rows.
func (r *result) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
