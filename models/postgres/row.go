package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	jsonv1 "encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Run runs one of the statements in sql/. Each connection parses and plans them once. Their
// arguments have names. Rows travel in both directions as JSON objects keyed by column name. A
// whole set of rows is one argument, see RowsArg and RowScan.
func Run(ctx context.Context, db bun.IDB, statement string, args pgx.NamedArgs) (*sql.Rows, error) {
	n, err := numberedOf(ctx, statement, args)
	if err != nil {
		return nil, err
	}
	values := []any{pgx.QueryExecModeCacheStatement}
	for _, name := range n.names {
		values = append(values, args[name])
	}
	switch db := db.(type) {
	case bun.Tx:
		return db.Tx.QueryContext(ctx, n.sql, values...)
	case *bun.DB:
		return db.DB.QueryContext(ctx, n.sql, values...)
	}
	return nil, fmt.Errorf("no statement can be run on a %T", db)
}

// numbered is a statement whose arguments have numbers instead of names.
type numbered struct {
	sql   string
	names []string
}

// numberings caches the numbered statements: to look for the names in a long one takes as long as
// all else that a call does here.
var numberings sync.Map // of a statement: *numbered

func numberedOf(ctx context.Context, statement string, args pgx.NamedArgs) (*numbered, error) {
	if n, ok := numberings.Load(statement); ok {
		return n.(*numbered), nil
	}
	names := pgx.NamedArgs{}
	for name := range args {
		names[name] = name
	}
	text, inOrder, err := names.RewriteQuery(ctx, nil, statement, nil)
	if err != nil {
		return nil, err
	}
	n := &numbered{sql: text}
	for i, name := range inOrder {
		if name == nil {
			return nil, fmt.Errorf("argument %d of a statement is missing", i+1)
		}
		n.names = append(n.names, name.(string))
	}
	numberings.Store(statement, n)
	return n, nil
}

// scanner scans rows as bun does. It has no connection.
var scanner = bun.NewDB(nil, newDialect(), bun.WithDiscardUnknownColumns())

// Read runs a query that a request needs and whose text is always the same, and scans its rows into
// dest as bun does. As with Run, each connection parses and plans it once: to plan a small query
// takes several times as long as to run it. The query names its columns, since the columns of a
// prepared statement must not change when a migration adds one. An array that it reads is a
// subquery: otherwise PostgreSQL sees how long the array is, finds a plan for just this length
// cheaper, and plans each call again.
func Read(ctx context.Context, db bun.IDB, query string, args pgx.NamedArgs, dest ...any) error {
	rows, err := Run(ctx, db, query, args)
	if err != nil {
		return err
	}
	return scanner.ScanRows(ctx, rows, dest...)
}

// ReadRow is Read of a query that finds one row. It returns sql.ErrNoRows if there is none.
func ReadRow[T any](ctx context.Context, db bun.IDB, query string, args pgx.NamedArgs) (*T, error) {
	var found []*T
	err := Read(ctx, db, query, args, &found)
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// SelectOf returns a query for Read that selects all columns of a model, by its table's alias, and
// continues with rest.
func SelectOf[T any](rest string) string {
	return scanner.NewSelect().Model((*T)(nil)).String() + " " + rest
}

// Scan reads all rows.
func Scan(rows *sql.Rows, err error, each func(*sql.Rows) error) error {
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

// rowFormat writes a row as JSON in the format of PostgreSQL's to_json. An id is a bare UUID;
// bytes are hexadecimal. A malformed id or token becomes NULL, which no row has.
var rowFormat = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), // in what clients sent: jsonb keeps the last one
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(func(to *jsontext.Encoder, id driver.Valuer) error {
			value, err := id.Value()
			return writeText(to, fmt.Sprint(value), err == nil && value != nil)
		}),
		json.MarshalToFunc(func(to *jsontext.Encoder, raw []byte) error {
			return writeText(to, `\x`+hex.EncodeToString(raw), raw != nil)
		}))),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, id sql.Scanner) error {
			text, err := readText(from)
			if err != nil || text == "" {
				return err
			}
			return id.Scan(text)
		}),
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, raw *[]byte) error {
			text, err := readText(from)
			if err != nil || text == "" {
				return err
			}
			*raw, err = hex.DecodeString(strings.TrimPrefix(text, `\x`))
			return err
		}),
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, raw *jsonv1.RawMessage) error {
			value, err := from.ReadValue()
			if value.Kind() != 'n' {
				*raw = jsonv1.RawMessage(value.Clone())
			}
			return err
		}))))

func writeText(to *jsontext.Encoder, text string, is bool) error {
	if !is {
		return to.WriteToken(jsontext.Null)
	}
	return to.WriteToken(jsontext.String(text))
}

// readText reads a text, or NULL as an empty one.
func readText(from *jsontext.Decoder) (string, error) {
	token, err := from.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return "", err
	}
	return token.String(), nil
}

// RowsArg makes a jsonb argument from a slice of rows. It returns an error if an id has the
// wrong kind.
func RowsArg(rows any) (string, error) {
	text, err := json.Marshal(rows, rowFormat)
	return string(text), err
}

// PlacedArg is RowsArg with the index of each row as its place.
func PlacedArg[T any](rows []T) (string, error) {
	type placed struct {
		Place int `json:"place"`
		Row   T   `json:",inline"`
	}
	return RowsArg(lo.Map(rows, func(row T, place int) placed { return placed{place, row} }))
}

// RowScan scans a row that a statement returns as JSON. The row stays nil for NULL.
type RowScan[T any] struct{ Row *T }

// Scan implements sql.Scanner.
func (r *RowScan[T]) Scan(src any) error {
	r.Row = nil
	switch text := src.(type) {
	case nil:
		return nil
	case string:
		r.Row = new(T)
		return json.Unmarshal([]byte(text), r.Row, rowFormat)
	case []byte:
		r.Row = new(T)
		return json.Unmarshal(text, r.Row, rowFormat)
	}
	return fmt.Errorf("scan a row of JSON from a %T", src)
}

// Column returns one value of each row.
func Column[R, V any](rows []R, of func(R) V) []V {
	values := make([]V, len(rows))
	for i, row := range rows {
		values[i] = of(row)
	}
	return values
}

// UUID returns an id as PostgreSQL stores it, or nil if the id is empty or malformed.
func UUID[T ~string](id T) *[16]byte {
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
