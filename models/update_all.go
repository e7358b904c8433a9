package models

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"
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
//
// The statement says which columns those are and nothing else, so that there are
// few, and each is planned a few times and no more: the values travel as texts
// beside it.
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
	var set, columns, names []string
	var values []any
	add := func(name, as string, of func(Changed[T]) (*string, error)) error {
		texts := make([]*string, len(rows))
		for i, row := range rows {
			if texts[i], err = of(row); err != nil {
				return err
			}
		}
		values, names = append(values, texts), append(names, as)
		columns = append(columns, fmt.Sprintf("%s::%s AS %s", as, types[name], as))
		return nil
	}
	where := "t.id = d.was_id"
	for _, name := range append([]string{"id"}, still...) {
		f := table.FieldMap[name]
		if err := add(name, "was_"+name, func(row Changed[T]) (*string, error) { return textOf(f, reflect.ValueOf(row.Was).Elem()) }); err != nil {
			return err
		}
		if name != "id" {
			where += " AND t." + name + " IS NOT DISTINCT FROM d.was_" + name
		}
	}
	for _, f := range fields {
		if err := add(f.Name, f.Name, func(row Changed[T]) (*string, error) { return textOf(f, reflect.ValueOf(row.Is).Elem()) }); err != nil {
			return err
		}
		set = append(set, f.Name+" = d."+f.Name)
	}
	arrays := make([]string, len(values))
	for i := range arrays {
		arrays[i] = fmt.Sprintf("$%d::text[]", i+1)
	}
	found, err := prepared(ctx, tx, "UPDATE "+table.Name+" AS t SET "+strings.Join(set, ", ")+
		" FROM (SELECT "+strings.Join(columns, ", ")+" FROM unnest("+strings.Join(arrays, ", ")+") AS u ("+strings.Join(names, ", ")+")) AS d"+
		" WHERE "+where+" RETURNING true", values...)
	n := 0
	err = scan(found, err, func(*sql.Rows) error { n++; return nil })
	if err == nil && n < len(rows) {
		return sql.ErrNoRows
	}
	return err
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
