package models

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// rowsOf reads the rows of a table, with its alias, that a condition names, by a
// prepared statement: for the few that are read in batches.
func rowsOf[T any](ctx context.Context, db bun.IDB, condition string, args ...any) (found []*T, err error) {
	return someOf[T](ctx, db, nil, condition, args...)
}

// someOf is rowsOf with some of the columns; nil is all.
func someOf[T any](ctx context.Context, db bun.IDB, only []string, condition string, args ...any) (found []*T, err error) {
	table := tableOf[T](db)
	text := columnsSQL(table)
	if only != nil {
		text = table.Alias + "." + strings.Join(only, ", "+table.Alias+".")
	}
	return readCells(ctx, db, cellsOf[T](db, only...), "SELECT "+text+" FROM "+table.Name+" AS "+table.Alias+" "+condition, args...)
}

// readRows reads the rows of a prepared statement that has the columns of columnsSQL.
func readRows[T any](ctx context.Context, db bun.IDB, query string, args ...any) (found []*T, err error) {
	return readCells(ctx, db, cellsOf[T](db), query, args...)
}

func readCells[T any](ctx context.Context, db bun.IDB, into cells[T], query string, args ...any) (found []*T, err error) {
	rows, err := prepared(ctx, db, query, args...)
	dest := into.add(nil)
	err = scan(rows, err, func(rows *sql.Rows) error {
		row := new(T)
		found = append(found, row)
		into.fill(row)
		return rows.Scan(dest...)
	})
	return found, err
}

// rowOf is rowsOf for one row; sql.ErrNoRows if there is none.
func rowOf[T any](ctx context.Context, db bun.IDB, condition string, args ...any) (*T, error) {
	found, err := rowsOf[T](ctx, db, condition, args...)
	if err != nil || len(found) == 0 {
		return nil, cmp.Or(err, sql.ErrNoRows)
	}
	return found[0], nil
}

func tableOf[T any](db bun.IDB) *schema.Table {
	return db.Dialect().Tables().Get(reflect.TypeFor[*T]())
}

var columns sync.Map // the texts that columnsSQL makes, by table

// columnsSQL names every column, with the table's alias: with an asterisk, a
// prepared statement fails once a migration has added one.
func columnsSQL(table *schema.Table) string {
	if text, known := columns.Load(table); known {
		return text.(string)
	}
	names := make([]string, len(table.Fields))
	for i, f := range table.Fields {
		names[i] = table.Alias + "." + f.Name
	}
	text := strings.Join(names, ", ")
	columns.Store(table, text)
	return text
}

// cells are where the columns of a T go, in columnsSQL's order, or some of them.
type cells[T any] []cell

func cellsOf[T any](db bun.IDB, only ...string) cells[T] {
	table := tableOf[T](db)
	if only == nil {
		return column(table.Fields, func(f *schema.Field) cell { return cell{field: f} })
	}
	return column(only, func(name string) cell { return cell{field: table.FieldMap[name]} })
}

// add adds the cells to what a row is scanned into.
func (c cells[T]) add(into []any) []any {
	for i := range c {
		into = append(into, &c[i])
	}
	return into
}

// fill has the next scan fill a new row.
func (c cells[T]) fill(row *T) {
	for i := range c {
		c[i].row = reflect.ValueOf(row).Elem()
	}
}

// cell is a column of a row that is read.
type cell struct {
	field *schema.Field
	row   reflect.Value
}

// Scan implements sql.Scanner. A new row needs nothing of a NULL, and half of a job's
// columns are.
func (c *cell) Scan(src any) error {
	if src == nil {
		return nil
	}
	return c.field.ScanValue(c.row, src)
}

// textOf is a row's value as PostgreSQL reads it; nil is NULL.
func textOf(f *schema.Field, row reflect.Value) (*string, error) {
	value := f.Value(row)
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return nil, nil
		}
		if _, isJSON := value.Interface().(*RetryPolicy); !isJSON {
			value = value.Elem()
		}
	} else if f.NullZero && value.IsZero() {
		return nil, nil
	}
	var text string
	switch v := value.Interface().(type) {
	case driver.Valuer:
		plain, err := v.Value()
		if err != nil || plain == nil {
			return nil, err
		}
		text = fmt.Sprint(plain)
	case time.Time:
		text = v.UTC().Format("2006-01-02 15:04:05.999999-07")
	case json.RawMessage:
		if v == nil {
			return nil, nil
		}
		text = string(v)
	case []byte:
		if v == nil {
			return nil, nil
		}
		text = `\x` + hex.EncodeToString(v)
	case []string:
		if v == nil {
			return nil, nil
		}
		text = stringsText(v)
	case []float64:
		if v == nil {
			return nil, nil
		}
		text = floatsText(v)
	case *RetryPolicy:
		return v.text(), nil
	default:
		switch value.Kind() {
		case reflect.String:
			text = value.String()
		case reflect.Int, reflect.Int32, reflect.Int64:
			text = strconv.FormatInt(value.Int(), 10)
		case reflect.Float64:
			text = strconv.FormatFloat(value.Float(), 'g', -1, 64)
		case reflect.Bool:
			text = strconv.FormatBool(value.Bool())
		default:
			return nil, fmt.Errorf("no text for %s, a %s", f.Name, value.Type())
		}
	}
	return &text, nil
}

// stringsText is an array as PostgreSQL reads it.
func stringsText(values []string) string {
	parts := make([]string, len(values))
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for i, v := range values {
		parts[i] = `"` + escape.Replace(v) + `"`
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// floatsText is an array as PostgreSQL reads it, or empty for nil.
func floatsText(values []float64) string {
	if values == nil {
		return ""
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return "{" + strings.Join(parts, ",") + "}"
}
