package jobs_test

import (
	"context"
	"testing"

	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestTraceparent(t *testing.T) {
	t.Parallel()

	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s := jobstest.New(t)
	submit := func(ctx context.Context) *models.Job {
		job, _, err := s.Submitter.Submit(ctx, s.Client, jobstest.Submission())
		require.NoError(t, err)
		return s.Reload(t, job.ID)
	}

	traced := submit(tracing.Adopt(t.Context(), caller))
	worker := s.Worker(t, "one")
	first := jobstest.LeaseNext(t, s, worker)
	_, err := s.Attempts.Release(t.Context(), worker, jobstest.FenceOf(first), models.FailPreempted)
	require.NoError(t, err)
	second := jobstest.LeaseNext(t, s, worker)

	require.Equal(t, caller, traced.Traceparent)
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", traced.TraceID())
	require.Equal(t, tracing.ForAttempt(caller, string(traced.ID), 1), first.Traceparent())
	require.Equal(t, tracing.ForAttempt(caller, string(traced.ID), 2), second.Traceparent())
	require.NotEqual(t, first.Traceparent(), second.Traceparent())
	require.Equal(t, traced.TraceID(), tracing.TraceID(first.Traceparent()))
	plain := submit(t.Context())
	require.Empty(t, plain.Traceparent)
	require.Empty(t, plain.TraceID())
	require.Empty(t, (&lease.Lease{Job: plain}).Traceparent())
}
