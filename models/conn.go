package models

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
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
	// over is why there is none any more, or never was: nothing may run by itself that
	// was meant to be part of it.
	over error
	end  func() // called once the connection is given back
}

// Close implements driver.Conn.
func (c *conn) Close() error {
	defer c.end()
	return c.Conn.Close()
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
	c.due, c.tx, c.over = true, nil, nil
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
	if c.over != nil {
		return nil, c.over
	}
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

// begin begins a transaction that is due. It returns why there is none if one was
// asked for and is over.
func (c *conn) begin(ctx context.Context) error {
	if c.due {
		c.due = false
		c.tx, c.over = c.Conn.Conn().BeginTx(ctx, pgx.TxOptions{})
	}
	return c.over
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
	switch {
	case err != nil && c.Conn.Conn().PgConn().TxStatus() == 'I': // it did not begin, or could not be committed
		c.over = err
	case err == nil && commits:
		c.tx, c.over = nil, sql.ErrTxDone
	}
	return found, err
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

// valueOf is what database/sql is given for a value that is not NULL, as it would be
// for a statement that runs by itself: what it knows nothing of, as a text.
func valueOf(types *pgtype.Map, f pgconn.FieldDescription, raw []byte) (driver.Value, error) {
	t, known := types.TypeForOID(f.DataTypeOID)
	if !known || f.Format == pgtype.TextFormatCode {
		return string(raw), nil
	}
	switch t.Codec.(type) {
	case *pgtype.ArrayCodec:
	case *pgtype.RangeCodec, *pgtype.MultirangeCodec, *pgtype.CompositeCodec:
		return nil, fmt.Errorf("column %s is a %s, of which no text is made", f.Name, t.Name)
	default:
		return t.Codec.DecodeDatabaseSQLValue(types, t.OID, f.Format, raw)
	}
	if binary.BigEndian.Uint32(raw) > 1 {
		return nil, fmt.Errorf("column %s is an array of arrays, of which no text is made", f.Name)
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
	t.conn.over = nil
	err := t.end(pgx.Tx.Rollback)
	if errors.Is(err, pgx.ErrTxClosed) { // it never began
		return nil
	}
	return err
}

func (t *transaction) end(how func(pgx.Tx, context.Context) error) error {
	tx, over := t.conn.tx, t.conn.over
	t.conn.due, t.conn.tx, t.conn.over = false, nil, nil
	switch {
	case tx != nil:
		return how(tx, t.ctx)
	case errors.Is(over, sql.ErrTxDone):
		return nil
	}
	return over
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
