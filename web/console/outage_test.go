package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutage_IsSaidAndNotLoggedAsOurs(t *testing.T) {
	t.Parallel()
	b := operator(t)
	b.Exec(t, `ALTER TABLE jobs RENAME TO others`)
	b.Exec(t, `CREATE FUNCTION no_jobs() RETURNS SETOF others LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '57P03'; END $$`)
	b.Exec(t, `CREATE VIEW jobs AS SELECT * FROM no_jobs()`)

	got := b.get(t, "/jobs")

	require.Equal(t, http.StatusServiceUnavailable, got.Status, got.Body)
	require.Equal(t, "2", got.Header.Get("Retry-After"))
	require.Contains(t, got.Body, "database cannot be reached")
}
