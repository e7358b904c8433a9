package jobs_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// clocked is a stack whose PostgreSQL has a clock that a test can set.
type clocked struct {
	*jobstest.Stack
	clock *modelstest.Clock
}

func newClocked(t *testing.T) clocked {
	t.Helper()
	clock := modelstest.NewClock(t, modelstest.DSN(t))
	db, done, err := models.Open(t.Context(), clock.DSN, 8)
	require.NoError(t, err)
	t.Cleanup(done)
	s := clocked{jobstest.Over(t, db), clock}
	s.Exec(t, "UPDATE presence SET seen_at = clock_timestamp()")
	return s
}

// set sets PostgreSQL's clock ahead of this machine's.
func (s clocked) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	s.clock.Set(t, ahead)
	now, err := models.Now(t.Context(), s.DB)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(ahead), now, time.Minute)
}

// present records control and api as present.
func (s clocked) present(t *testing.T) {
	t.Helper()
	for _, kind := range []models.ProcessKind{models.ProcessAPI, models.ProcessControl} {
		require.NoError(t, (&jobs.Presence{DB: s.DB, Kind: kind}).Pass(t.Context()))
	}
}

func (s clocked) reap(t *testing.T) int {
	t.Helper()
	n, err := s.Reaper.Reap(t.Context())
	require.NoError(t, err)
	return n
}

// complete lets a worker complete its job.
func (s clocked) complete(t *testing.T, worker jobs.Principal, f jobs.Fence) {
	t.Helper()
	video := s.Upload(t, worker, f, models.ArtifactFinalVideo, []byte("a video"))
	_, err := s.Holder.Complete(t.Context(), worker, f, jobs.Completion{Video: &video})
	require.NoError(t, err)
}

func (s clocked) attempt(t *testing.T, f jobs.Fence) *models.Attempt {
	t.Helper()
	attempt, err := models.GetAttempt(t.Context(), s.DB, f.AttemptID)
	require.NoError(t, err)
	return attempt
}
