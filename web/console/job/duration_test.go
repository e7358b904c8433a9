package job

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobTime_AddsUpAllWaitsAndAllAttempts(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	job := &models.Job{Status: models.JobQueued, QueuedSeconds: new(128.0), LeasedSeconds: new(20.0), QueuedAt: at, LeasedAt: at}
	require.Equal(t, lasting{Since: at}, waited(&query.JobWait{Since: at}))
	require.Equal(t, lasting{Seconds: new(20.0)}, ran(job))
	require.Equal(t, lasting{Since: at.Add(-148 * time.Second)}, took(job))

	job.Status = models.JobRunning
	require.Equal(t, lasting{Seconds: new(128.0)}, waited(&query.JobWait{Seconds: 128}))
	require.Equal(t, lasting{Since: at.Add(-20 * time.Second)}, ran(job))

	job.Status = models.JobCompleted
	require.Equal(t, lasting{Seconds: new(148.0)}, took(job))
	require.Equal(t, lasting{}, waited(nil), "what is unknown is not 0")
	require.Equal(t, lasting{}, took(&models.Job{Status: models.JobCompleted}), "what is unknown is not 0")
}
