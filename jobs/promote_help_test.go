package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

// promoteAll ages every queued job's wait, and promotes the jobs that may be. FREE jobs are
// then in PRO, and PRO's own stay.
func promoteAll(t testing.TB, s *jobstest.Stack) {
	t.Helper()
	s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '16 minutes' WHERE status = 'QUEUED' AND tier = 'FREE'")
	_, err := s.Promoter.Promote(t.Context())
	require.NoError(t, err)
}
