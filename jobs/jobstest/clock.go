package jobstest

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// Clocked is a stack whose PostgreSQL has a clock that a test can set.
type Clocked struct {
	*Stack
	clock *modelstest.Clock
}

// NewClocked returns a stack whose PostgreSQL has a clock of the test's own.
func NewClocked(t *testing.T) Clocked {
	t.Helper()
	clock := modelstest.NewClock(t, modelstest.DSN(t))
	db, done, err := postgres.Open(t.Context(), clock.DSN, 8)
	require.NoError(t, err)
	t.Cleanup(done)
	s := Clocked{Over(t, db), clock}
	s.Exec(t, "UPDATE presence SET seen_at = clock_timestamp()")
	return s
}

// Set sets PostgreSQL's clock ahead of this machine's.
func (s Clocked) Set(t *testing.T, ahead time.Duration) {
	t.Helper()
	s.clock.Set(t, ahead)
	now, err := postgres.Now(t.Context(), s.DB)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(ahead), now, time.Minute)
}

// Present records control and api as present.
func (s Clocked) Present(t *testing.T) {
	t.Helper()
	for _, kind := range []models.ProcessKind{models.ProcessAPI, models.ProcessControl} {
		require.NoError(t, (&lease.Presence{DB: s.DB, Kind: kind}).Pass(t.Context()))
	}
}

// Reap runs one pass of the reaper, and returns how many attempts it ended.
func (s Clocked) Reap(t *testing.T) int {
	t.Helper()
	n, err := s.Reaper.Reap(t.Context())
	require.NoError(t, err)
	return n
}

// Complete lets a worker complete its job.
func (s Clocked) Complete(t *testing.T, worker jobs.Principal, f lease.Fence) {
	t.Helper()
	video := s.Upload(t, worker, f, models.ArtifactFinalVideo, []byte("a video"))
	_, err := s.Attempts.Complete(t.Context(), worker, f, lease.Completion{Video: &video})
	require.NoError(t, err)
}

// Attempt reads the attempt of a fence.
func (s Clocked) Attempt(t *testing.T, f lease.Fence) *models.Attempt {
	t.Helper()
	attempt, err := models.GetAttempt(t.Context(), s.DB, f.AttemptID)
	require.NoError(t, err)
	return attempt
}
