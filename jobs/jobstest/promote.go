package jobstest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// PromoteAll ages every queued job's wait, and promotes the jobs that may be. FREE jobs are
// then in PRO, and PRO's own stay.
func PromoteAll(t testing.TB, s *Stack) {
	t.Helper()
	s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '16 minutes' WHERE status = 'QUEUED' AND tier = 'FREE'")
	_, err := s.Promoter.Promote(t.Context())
	require.NoError(t, err)
}
