package jobstest

import (
	"context"
	"errors"
	"testing"

	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// tables are the tables of jobs and workers.
var tables = []string{
	"accounts", "account_lanes", "workers", "pools", "scaling_decisions", "jobs", "job_inputs", "job_attempts",
	"uploads", "artifacts", "job_events", "outbox", "job_dependencies", "unsettled", "job_runs", "dead_letters", "object_deletions",
	"bulk_operations", "bulk_items", "videos",
	"lanes", "queue_pauses", "halts",
	"api_keys", "audit_log",
	"input_uses", "input_fetches", "job_sources", "approvals",
}

// SecretPattern matches secrets in a text.
const SecretPattern = `rlw?_live_[0-9A-Za-z]{49}`

// Dump returns every row of every table, so that a test can compare them before and after a
// call that must change nothing.
func (s *Stack) Dump(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, table := range tables {
		var rows string
		require.NoError(t, s.DB.NewRaw(
			"SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY to_jsonb(r)::text), '[]')::text FROM ? r", bun.Ident(table),
		).Scan(t.Context(), &rows))
		all[table] = rows
	}
	return all
}

// Exec runs SQL with which a test ages or damages rows.
func (s *Stack) Exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := s.DB.NewRaw(query, args...).Exec(t.Context())
	require.NoError(t, err)
}

// RequireCode fails the test unless err is an apierror.Error with that code.
func RequireCode(t require.TestingT, err error, code apierror.Code) {
	var e *apierror.Error
	require.Error(t, err)
	require.True(t, errors.As(err, &e), "not an error of the caller's: %v", err)
	require.Equal(t, code, e.Code, e.Message)
}

// RequireInvalid fails the test unless err names that field as invalid.
func RequireInvalid(t require.TestingT, err error, field string) {
	RequireCode(t, err, apierror.CodeInvalidInput)
	var e *apierror.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, field, e.Field, e.Message)
}

// untold selects the queued jobs without a message in the outbox.
const untold = `
	SELECT j.id FROM jobs j WHERE j.status = 'QUEUED'
		AND NOT EXISTS (SELECT FROM outbox o WHERE 'job_' || j.id IN (SELECT o.payload ->> 'jobId' UNION ALL SELECT jsonb_array_elements_text(o.payload -> 'others')))`

// RequireInvariants fails the test if a row breaks an invariant. Tests that relay the outbox
// cannot use it, because it requires a message for each queued job.
func (s *Stack) RequireInvariants(t require.TestingT) {
	s.RequireRows(t)
	var rows []string
	require.NoError(t, s.DB.NewRaw(untold).Scan(context.Background(), &rows))
	require.Empty(t, rows, "queued jobs have no message in the outbox")
}

// RequireRows is RequireInvariants without the check of the outbox.
func (s *Stack) RequireRows(t require.TestingT) {
	for _, which := range models.Invariants {
		broken, err := models.FindViolations(context.Background(), s.DB, which, doctor.Examination(), 20)
		require.NoError(t, err, which)
		require.Empty(t, broken.IDs, which)
	}
}

// Count counts the rows of a table.
func (s *Stack) Count(t testing.TB, table string) int {
	t.Helper()
	var n int
	require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM ?", bun.Ident(table)).Scan(t.Context(), &n))
	return n
}

// WaitForLocks waits until n calls on the test's database wait for locks.
func (s *Stack) WaitForLocks(t testing.TB, n int) {
	t.Helper()
	testrun.Eventually(t, "the calls wait for locks", func() bool {
		var waiting int
		err := s.DB.NewRaw(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(context.Background(), &waiting)
		return err == nil && waiting == n
	})
}
