package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// begin begins another transaction, which ends with the test at the latest.
func begin(t *testing.T, s *jobstest.Stack) bun.Tx {
	t.Helper()
	tx, err := s.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}
