package watch_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestWaiting(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	job := s.Submit(t)
	told := make(chan []query.WaitingReason, 100)
	done := make(chan error, 2)
	go func() {
		done <- s.Watcher.Waiting(t.Context(), s.Client, job.ID, func(reasons []query.WaitingReason) error {
			told <- reasons
			return nil
		})
	}()
	states := make(chan *models.Job, 100)
	go func() {
		done <- s.Watcher.Job(t.Context(), s.Client, job.ID, 50*time.Millisecond, func(job *models.Job) error {
			states <- job
			return nil
		})
	}()

	first := <-told
	require.Equal(t, query.WaitNoPool, first[0].Code, "at once, while nothing happens to the job")
	<-states
	_, err := s.Operator.PauseQueue(t.Context(), s.Admin, job.Lane, "", "ticket 4711")
	require.NoError(t, err)
	for second := <-told; second[0].Code != query.WaitQueuePaused; second = <-told {
		require.NotEmpty(t, second)
	}
	require.Equal(t, models.JobQueued, (<-states).Status, "another reason is news of the job, too")
	_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
	require.NoError(t, err)
	last := <-told
	for len(last) > 0 {
		last = <-told
	}
	require.Empty(t, last, "it waits no longer")
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}
