package graph_test

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// TestOutage covers the errors while PostgreSQL is down, full or busy.
func TestOutage(t *testing.T) {
	t.Parallel()

	t.Run("RefusesRequestsWhileKeysCannotBeChecked", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		db, done, err := postgres.Open(t.Context(), dsn, 4)
		require.NoError(t, err)
		t.Cleanup(done)
		s := jobstest.Over(t, db)
		url := serve(t, s)
		proxy.Cut()

		a := ask(t, url, s.Secrets[access.RoleClient], `{ models { name } }`, nil)

		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Equal(t, "2", a.header.Get("Retry-After"))
		require.Equal(t, []string{"UNAVAILABLE"}, a.codes())
		require.EqualValues(t, 2, a.Errors[0].Extensions["retryAfterSeconds"])
		require.True(t, a.closes, "the next call may reach another process")
	})

	for name, code := range map[string]string{
		"DiskFull": "53100", "TooManyConnections": "53300", "ReadOnly": "25006", "StatementTimeout": "57014", "ShuttingDown": "57P01",
	} {
		t.Run("IsAnErrorOfTheFieldWhenItComesLater/"+name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.Exec(t, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '`+code+`'; END $$`)
			a.Exec(t, `CREATE TRIGGER fail BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION fail()`)

			got := ask(t, a.url, a.Secrets[access.RoleClient], `mutation { submitJob(input: {model: "testcard", prompt: "fog"}) { job { id } } }`,
				nil)

			require.Equal(t, []string{"UNAVAILABLE"}, got.codes(), "%+v", got.Errors)
			require.EqualValues(t, 2, got.Errors[0].Extensions["retryAfterSeconds"])
			require.Equal(t, "2", got.header.Get("Retry-After"))
			require.True(t, got.closes, "the next call may reach another process")
			require.Zero(t, a.Count(t, "jobs"))
			require.Zero(t, a.Count(t, "outbox"))
		})
	}
}
