package models

import (
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
	table := db.Dialect().Tables().Get(reflect.TypeFor[*T]())
	rows, err := prepared(ctx, db, selectSQL(table)+condition, args...)
	cells := make([]cell, len(table.Fields))
	into := make([]any, len(table.Fields))
	for i, f := range table.Fields {
		cells[i].field, into[i] = f, &cells[i]
	}
	err = scan(rows, err, func(rows *sql.Rows) error {
		row := new(T)
		found = append(found, row)
		for i := range cells {
			cells[i].row = reflect.ValueOf(row).Elem()
		}
		return rows.Scan(into...)
	})
	return found, err
}

var selects sync.Map // the texts that selectSQL makes, by table

// selectSQL names every column: with an asterisk, a prepared statement fails once
// a migration has added one.
func selectSQL(table *schema.Table) string {
	if text, known := selects.Load(table); known {
		return text.(string)
	}
	names := make([]string, len(table.Fields))
	for i, f := range table.Fields {
		names[i] = table.Alias + "." + f.Name
	}
	text := "SELECT " + strings.Join(names, ", ") + " FROM " + table.Name + " AS " + table.Alias + " "
	selects.Store(table, text)
	return text
}

// cell is a column of a row that is read.
type cell struct {
	field *schema.Field
	row   reflect.Value
}

// Scan implements sql.Scanner.
func (c *cell) Scan(src any) error { return c.field.ScanValue(c.row, src) }

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
