package models

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"sync"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// Changed is a row as it shall be, and as it was when it was locked.
type Changed[T any] struct{ Was, Is *T }

// columnTypes are the types of tables' columns as PostgreSQL writes them, by
// table: they are the same for all of a process's life.
var columnTypes sync.Map

func typesOf(ctx context.Context, db bun.IDB, table string) (map[string]string, error) {
	if known, ok := columnTypes.Load(table); ok {
		return known.(map[string]string), nil
	}
	var columns []struct {
		Name string `bun:"name"`
		Type string `bun:"type"`
	}
	err := db.NewRaw(`
		SELECT attname AS name, format_type(atttypid, atttypmod) AS type
		FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped`, table).Scan(ctx, &columns)
	types := make(map[string]string, len(columns))
	for _, c := range columns {
		types[c.Name] = c.Type
	}
	if err == nil {
		columnTypes.Store(table, types)
	}
	return types, err
}

// updateAll writes, in one statement, what changed of rows that this transaction
// has locked: those columns alone that changed in some of them. A row is found by
// its id and by the columns in still, which have to be as they were. It returns
// sql.ErrNoRows if one is not found.
func updateAll[T any](ctx context.Context, tx bun.Tx, rows []Changed[T], still ...string) error {
	table := tx.Dialect().Tables().Get(reflect.TypeFor[*T]())
	fields := changedFields(table, rows)
	if len(fields) == 0 {
		return nil
	}
	types, err := typesOf(ctx, tx, table.Name)
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", table.Name, err)
	}
	u := update{types: types, gen: schema.NewQueryGen(tx.Dialect())}
	u.add("UPDATE ", table.Name, " AS t SET ")
	for i, f := range fields {
		u.separate(i, ", ")
		u.add(f.Name, " = d.", f.Name)
	}
	u.add(" FROM (VALUES ")
	var conditions []*schema.Field
	for _, name := range append([]string{"id"}, still...) {
		conditions = append(conditions, table.FieldMap[name])
	}
	for i, row := range rows {
		u.separate(i, ", ")
		u.add("(")
		u.values(i == 0, reflect.ValueOf(row.Was).Elem(), conditions)
		u.add(", ")
		u.values(i == 0, reflect.ValueOf(row.Is).Elem(), fields)
		u.add(")")
	}
	u.add(") AS d (")
	for i, f := range conditions {
		u.separate(i, ", ")
		u.add("was_", f.Name)
	}
	for _, f := range fields {
		u.add(", ", f.Name)
	}
	u.add(") WHERE ")
	u.add("t.id = d.was_id")
	for _, f := range conditions[1:] {
		u.add(" AND t.", f.Name, " IS NOT DISTINCT FROM d.was_", f.Name)
	}
	result, err := tx.ExecContext(ctx, string(u.text))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == int64(len(rows)) {
		return err
	}
	return sql.ErrNoRows
}

// changedFields are those whose values changed in some row.
func changedFields[T any](table *schema.Table, rows []Changed[T]) []*schema.Field {
	var changed []*schema.Field
	for _, f := range table.Fields {
		for _, row := range rows {
			was, is := f.Value(reflect.ValueOf(row.Was).Elem()), f.Value(reflect.ValueOf(row.Is).Elem())
			if !reflect.DeepEqual(was.Interface(), is.Interface()) {
				changed = append(changed, f)
				break
			}
		}
	}
	return changed
}

// update is a statement that is being written.
type update struct {
	types map[string]string
	gen   schema.QueryGen
	text  []byte
}

func (u *update) add(parts ...string) {
	for _, part := range parts {
		u.text = append(u.text, part...)
	}
}

func (u *update) separate(i int, by string) {
	if i > 0 {
		u.add(by)
	}
}

// values adds the values of fields. Those of the first row say of which types
// the others are.
func (u *update) values(typed bool, row reflect.Value, fields []*schema.Field) {
	for i, f := range fields {
		u.separate(i, ", ")
		u.text = f.AppendValue(u.gen, u.text, row)
		if typed {
			u.add("::", u.types[f.Name])
		}
	}
}
