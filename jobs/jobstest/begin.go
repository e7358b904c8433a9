package jobstest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// Begin begins another transaction, which ends with the test at the latest.
func Begin(t *testing.T, s *Stack) bun.Tx {
	t.Helper()
	tx, err := s.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}
