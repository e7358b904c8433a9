package modelstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// Clock is the clock of a test's database, which the test may set.
type Clock struct {
	// DSN is the database with that clock.
	DSN string
	db  *bun.DB
}

// shiftable puts functions of a test's own before PostgreSQL's clock: one that runs ahead, or
// behind, by what the table says.
const shiftable = `
	CREATE TABLE public.shift (ahead interval NOT NULL);
	INSERT INTO public.shift VALUES ('0');
	CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		'SELECT pg_catalog.clock_timestamp() + ahead FROM public.shift';
	CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS
		'SELECT pg_catalog.now() + ahead FROM public.shift';
	DO $$ DECLARE c record; BEGIN
		FOR c IN SELECT attrelid::regclass AS owner, attname, pg_get_expr(adbin, adrelid) AS clock
			FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
			WHERE pg_get_expr(adbin, adrelid) IN ('now()', 'clock_timestamp()')
		LOOP
			EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT public.%s', c.owner, c.attname, c.clock);
		END LOOP;
	END $$`

// NewClock gives the database at dsn a clock that Set sets.
func NewClock(t testing.TB, dsn string) *Clock {
	t.Helper()
	db, done, err := postgres.Open(t.Context(), dsn, 1)
	require.NoError(t, err)
	t.Cleanup(done)
	_, err = db.ExecContext(t.Context(), shiftable)
	require.NoError(t, err)
	return &Clock{DSN: dsn + "&search_path=public,pg_catalog", db: db}
}

// Set sets the clock to be ahead of the processes' own.
func (c *Clock) Set(t testing.TB, ahead time.Duration) {
	t.Helper()
	_, err := c.db.ExecContext(t.Context(), fmt.Sprintf("UPDATE shift SET ahead = '%f s'", ahead.Seconds()))
	require.NoError(t, err)
}
