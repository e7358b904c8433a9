package job

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobAction_RedrivesFromTheCheckpointIfNothingIsEdited(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	job := s.Submit(t)
	worker := s.Worker(t, "failing")
	_, fence := s.Lease(t, worker)
	_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "a face"})
	require.NoError(t, err)
	v, err := (&controller{Config: Config{Reads: s.Reads, Letters: s.DeadLetters}}).readJobAction(t.Context(), s.Admin, job.ID)
	require.NoError(t, err)

	edit, problems := v.edit(v.Values)

	require.Empty(t, problems)
	require.Equal(t, operate.Edit{}, edit)
}
