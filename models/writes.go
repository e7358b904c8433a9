package models

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// Changed is a row as it shall be, and as it was when it was locked.
type Changed[T any] struct{ Was, Is *T }

// Writes are what a transaction does to rows that it has locked, and the rows that
// it adds to them.
type Writes struct {
	// Workers and Jobs have to be in the state in which they were locked, Attempts
	// must not be over, and have their token.
	Workers  []Changed[Worker]
	Jobs     []Changed[Job]
	Attempts []Changed[Attempt]
	// Begun are attempts that begin.
	Begun []*Attempt
	// Issued are keys for uploads.
	Issued []*IssuedUpload
	// Artifacts are of issued keys, and of no other artifact's.
	Artifacts []*Artifact
	// Events have a Seq that was counted on the locked job.
	Events []*JobEvent
	// Count is of accounts that are locked, or are with it.
	Count Count
	// Starts are the turns of a lane that the attempts which begin take.
	Starts Starts
}

// ErrNoRoom means that an account has no room for what Count adds to it.
var ErrNoRoom = errors.New("the account has no room")

// Write writes it all in one statement. It returns ErrTurn, ErrNoRoom, or sql.ErrNoRows
// if another row is not as it has to be. The accounts are locked with it, after all
// other rows.
//
// The statement says which columns and tables those are and nothing else, so that
// there are few, and each connection plans one once.
func (w *Writes) Write(ctx context.Context, tx bun.Tx) error {
	s := statement{counted: "true"}
	for _, err := range []error{
		update(ctx, tx, &s, w.Workers, "status"),
		update(ctx, tx, &s, w.Attempts, "fencing_token", "ended_at"),
		update(ctx, tx, &s, w.Jobs, "status"),
	} {
		if err != nil {
			return err
		}
	}
	s.begin(w.Begun)
	s.issue(w.Issued)
	s.keep(w.Artifacts)
	s.tell(w.Events)
	s.count(&w.Count)
	s.start(w.Starts)
	return s.run(ctx, tx)
}

// statement is several, as one.
type statement struct {
	parts []part
	args  []any
	// counted is a condition that holds once it has counted on the accounts, if there are
	// any.
	counted string
}

// part is one of a statement.
type part struct {
	sql string
	// must is which number of rows it has to have, as "= $1", or what it fails with;
	// empty is any.
	must string
	err  error
	// read takes its rows, as JSON, if they are wanted.
	read func(rows []byte) error
}

// arg adds an argument, and returns its place.
func (s *statement) arg(value any, as string) string {
	s.args = append(s.args, value)
	return fmt.Sprintf("$%d::%s", len(s.args), as)
}

// add adds a part that writes size rows.
func (s *statement) add(text string, size int) {
	s.addRead(text+" RETURNING true", size, sql.ErrNoRows, nil)
}

// addRead is add for a part that says what it returns and what it fails with: read gets
// its rows, as JSON objects, once all is written.
func (s *statement) addRead(text string, size int, failure error, read func(rows []byte) error) {
	s.parts = append(s.parts, part{text, ">= " + s.arg(size, "bigint"), failure, read})
}

// run runs the statement.
func (s *statement) run(ctx context.Context, tx bun.Tx) error {
	if len(s.parts) == 0 {
		return nil
	}
	holds, read, into := make([]bool, len(s.parts)), make([][]byte, len(s.parts)), []any(nil)
	var parts, results []string
	for i, part := range s.parts {
		name := fmt.Sprintf("part_%d", i)
		parts = append(parts, name+" AS ("+part.sql+")")
		if holds[i] = part.must == ""; !holds[i] {
			results, into = append(results, "(SELECT count(*) FROM "+name+") "+part.must), append(into, &holds[i])
		}
		if part.read != nil {
			results, into = append(results, "(SELECT coalesce(jsonb_agg("+name+"), '[]') FROM "+name+")"), append(into, &read[i])
		}
	}
	rows, err := prepared(ctx, tx, "WITH "+strings.Join(parts, ", ")+" SELECT "+strings.Join(results, ", "), s.args...)
	err = scan(rows, err, func(rows *sql.Rows) error { return rows.Scan(into...) })
	if err != nil {
		return err
	}
	for i, part := range s.parts {
		if !holds[i] {
			return part.err
		}
	}
	for i, part := range s.parts {
		if part.read == nil {
			continue
		}
		if err := part.read(read[i]); err != nil {
			return err
		}
	}
	return nil
}

// update adds what changed of rows that this transaction has locked: those columns
// alone that changed in some of them. A row is found by its id and by the columns in
// still, which have to be as they were. The values travel as texts.
func update[T any](ctx context.Context, tx bun.Tx, s *statement, rows []Changed[T], still ...string) error {
	table := tableOf[T](tx)
	fields := changedFields(table, rows)
	if len(fields) == 0 {
		return nil
	}
	types, err := typesOf(ctx, tx, table.Name)
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", table.Name, err)
	}
	var set, columns, names, arrays []string
	add := func(f *schema.Field, as string, of func(Changed[T]) *T) error {
		texts := make([]*string, len(rows))
		for i, row := range rows {
			if texts[i], err = textOf(f, reflect.ValueOf(of(row)).Elem()); err != nil {
				return err
			}
		}
		arrays, names = append(arrays, s.arg(texts, "text[]")), append(names, as)
		columns = append(columns, fmt.Sprintf("%s::%s AS %s", as, types[f.Name], as))
		return nil
	}
	where := "t.id = d.was_id"
	for _, name := range append([]string{"id"}, still...) {
		if err := add(table.FieldMap[name], "was_"+name, func(row Changed[T]) *T { return row.Was }); err != nil {
			return err
		}
		if name != "id" {
			where += " AND t." + name + " IS NOT DISTINCT FROM d.was_" + name
		}
	}
	for _, f := range fields {
		if err := add(f, f.Name, func(row Changed[T]) *T { return row.Is }); err != nil {
			return err
		}
		set = append(set, f.Name+" = d."+f.Name)
	}
	s.add("UPDATE "+table.Name+" AS t SET "+strings.Join(set, ", ")+
		" FROM (SELECT "+strings.Join(columns, ", ")+" FROM unnest("+strings.Join(arrays, ", ")+") AS u ("+strings.Join(names, ", ")+")) AS d"+
		" WHERE "+where, len(rows))
	return nil
}

// changedFields are those whose values changed in some row.
func changedFields[T any](table *schema.Table, rows []Changed[T]) []*schema.Field {
	var changed []*schema.Field
	for _, f := range table.Fields {
		for _, row := range rows {
			was, is := f.Value(reflect.ValueOf(row.Was).Elem()), f.Value(reflect.ValueOf(row.Is).Elem())
			if !same(was, is) {
				changed = append(changed, f)
				break
			}
		}
	}
	return changed
}

// same tells whether two values of a field are. Most are plain, and compared without
// a copy of them.
func same(was, is reflect.Value) bool {
	switch was.Kind() {
	case reflect.String:
		return was.String() == is.String()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return was.Int() == is.Int()
	case reflect.Bool:
		return was.Bool() == is.Bool()
	case reflect.Pointer, reflect.Slice:
		if was.IsNil() && is.IsNil() {
			return true
		}
	}
	return reflect.DeepEqual(was.Interface(), is.Interface())
}

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

func (s *statement) begin(attempts []*Attempt) {
	if len(attempts) == 0 {
		return
	}
	s.add(fmt.Sprintf(`
		INSERT INTO job_attempts (
			id, job_id, run, attempt_no, worker_id, fencing_token, lease_request_id, status, leased_at, lease_expires_at, last_heartbeat_at)
		SELECT id, job_id, run, attempt_no, worker_id, token, nullif(request, ''), status, leased_at, lease_expires_at, leased_at
		FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
			AS a (id, job_id, run, attempt_no, worker_id, token, request, status, leased_at, lease_expires_at)`,
		s.arg(column(attempts, func(a *Attempt) *[16]byte { return uuidOf(a.ID) }), "uuid[]"),
		s.arg(column(attempts, func(a *Attempt) *[16]byte { return uuidOf(a.JobID) }), "uuid[]"),
		s.arg(column(attempts, func(a *Attempt) int { return a.Run }), "integer[]"),
		s.arg(column(attempts, func(a *Attempt) int { return a.AttemptNo }), "integer[]"),
		s.arg(column(attempts, func(a *Attempt) *[16]byte { return uuidOf(a.WorkerID) }), "uuid[]"),
		s.arg(column(attempts, func(a *Attempt) *[16]byte { return uuidOf(a.FencingToken) }), "uuid[]"),
		s.arg(column(attempts, func(a *Attempt) string { return a.LeaseRequestID }), "text[]"),
		s.arg(column(attempts, func(a *Attempt) string { return string(a.Status) }), "text[]"),
		s.arg(column(attempts, func(a *Attempt) time.Time { return a.LeasedAt }), "timestamptz[]"),
		s.arg(column(attempts, func(a *Attempt) time.Time { return a.LeaseExpiresAt }), "timestamptz[]")), len(attempts))
}

func (s *statement) issue(uploads []*IssuedUpload) {
	if len(uploads) == 0 {
		return
	}
	s.add(fmt.Sprintf(`
		INSERT INTO uploads (object_key, job_id, attempt_id, type, content_type, size_bytes, checksum)
		SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s) AS u (object_key, job_id, attempt_id, type, content_type, size_bytes, checksum)`,
		s.arg(column(uploads, func(u *IssuedUpload) string { return u.ObjectKey }), "text[]"),
		s.arg(column(uploads, func(u *IssuedUpload) *[16]byte { return uuidOf(u.JobID) }), "uuid[]"),
		s.arg(column(uploads, func(u *IssuedUpload) *[16]byte { return uuidOf(u.AttemptID) }), "uuid[]"),
		s.arg(column(uploads, func(u *IssuedUpload) string { return string(u.Type) }), "text[]"),
		s.arg(column(uploads, func(u *IssuedUpload) string { return u.ContentType }), "text[]"),
		s.arg(column(uploads, func(u *IssuedUpload) int64 { return u.SizeBytes }), "bigint[]"),
		s.arg(column(uploads, func(u *IssuedUpload) string { return u.Checksum }), "text[]")), len(uploads))
}

// keep writes artifacts of what was announced when their keys were issued.
func (s *statement) keep(artifacts []*Artifact) {
	if len(artifacts) == 0 {
		return
	}
	s.add(fmt.Sprintf(`
		INSERT INTO artifacts (id, job_id, account_id, attempt_id, type, object_key, size_bytes, checksum, content_type, step, percent, metadata, created_at)
		SELECT a.id, u.job_id, a.account_id, u.attempt_id, u.type, u.object_key, u.size_bytes, u.checksum, u.content_type, a.step, a.percent, a.metadata::jsonb, a.created_at
		FROM unnest(%s, %s, %s, %s, %s, %s, %s) AS a (id, account_id, object_key, step, percent, metadata, created_at)
		JOIN uploads u ON u.object_key = a.object_key`,
		s.arg(column(artifacts, func(a *Artifact) *[16]byte { return uuidOf(a.ID) }), "uuid[]"),
		s.arg(column(artifacts, func(a *Artifact) *[16]byte { return uuidOf(a.AccountID) }), "uuid[]"),
		s.arg(column(artifacts, func(a *Artifact) string { return a.ObjectKey }), "text[]"),
		s.arg(column(artifacts, func(a *Artifact) *int { return a.Step }), "integer[]"),
		s.arg(column(artifacts, func(a *Artifact) *float64 { return a.Percent }), "float8[]"),
		s.arg(column(artifacts, func(a *Artifact) *string { return nullable(string(a.Metadata)) }), "text[]"),
		s.arg(column(artifacts, func(a *Artifact) time.Time { return a.CreatedAt }), "timestamptz[]")), len(artifacts))
}

func (s *statement) tell(events []*JobEvent) {
	if len(events) == 0 {
		return
	}
	s.add(fmt.Sprintf(`
		INSERT INTO job_events (job_id, seq, run, attempt_id, type, payload, created_at)
		SELECT job_id, seq, run, attempt_id, type, payload::jsonb, created_at
		FROM unnest(%s, %s, %s, %s, %s, %s, %s) AS e (job_id, seq, run, attempt_id, type, payload, created_at)`,
		s.arg(column(events, func(e *JobEvent) *[16]byte { return uuidOf(e.JobID) }), "uuid[]"),
		s.arg(column(events, func(e *JobEvent) int { return e.Seq }), "integer[]"),
		s.arg(column(events, func(e *JobEvent) int { return e.Run }), "integer[]"),
		s.arg(column(events, func(e *JobEvent) *[16]byte { return uuidOf(e.AttemptID) }), "uuid[]"),
		s.arg(column(events, func(e *JobEvent) string { return string(e.Type) }), "text[]"),
		s.arg(column(events, func(e *JobEvent) string { return string(e.Payload) }), "text[]"),
		s.arg(column(events, func(e *JobEvent) time.Time { return e.CreatedAt }), "timestamptz[]")), len(events))
}
