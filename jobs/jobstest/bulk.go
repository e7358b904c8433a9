package jobstest

import (
	"testing"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// BulkPass lets that much time pass for the pace, and then runs one pass. On a busy machine a pass
// may get no connection: then it runs again, as it does in a control process.
func BulkPass(t *testing.T, s *Stack, b *bulk.Bulk, time string) int {
	t.Helper()
	s.Exec(t, "UPDATE bulk_operations SET next_at = next_at - ?::interval", time)
	n, err := b.Pass(t.Context())
	for postgres.IsBusy(err) {
		var more int
		more, err = b.Pass(t.Context())
		n += more
	}
	require.NoError(t, err)
	return n
}

// FinishBulk runs passes until an operation is finished, and returns it.
func FinishBulk(t *testing.T, s *Stack, id models.BulkID) *joblist.BulkOperation {
	t.Helper()
	for range 100 {
		BulkPass(t, s, s.Bulk, "5 s")
		op, err := s.Bulk.Get(t.Context(), s.Admin, id)
		require.NoError(t, err)
		if !op.FinishedAt.IsZero() {
			return op
		}
	}
	t.Fatal("the operation does not end")
	return nil
}

func BulkOperation(t *testing.T, s *Stack, id models.BulkID) *joblist.BulkOperation {
	t.Helper()
	op, err := s.Bulk.Get(t.Context(), s.Admin, id)
	require.NoError(t, err)
	return op
}
