package jobs_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// proxied is a stack whose connection to PostgreSQL a test can break.
func proxied(t *testing.T) (*jobstest.Stack, *faultproxy.Proxy) {
	t.Helper()
	dsn, proxy := modelstest.Proxied(t)
	db, done, err := postgres.Open(t.Context(), dsn, 8)
	require.NoError(t, err)
	t.Cleanup(done)
	return jobstest.Over(t, db), proxy
}

// loseCommit makes a call whose commit succeeds but whose response is lost.
func loseCommit(t *testing.T, proxy *faultproxy.Proxy, call func() error) {
	t.Helper()
	loseAnswer(t, proxy, func(answer []byte) bool { return bytes.Contains(answer, []byte("COMMIT\x00")) }, call)
}

// loseAnswer makes a call, and drops the response that matches.
func loseAnswer(t *testing.T, proxy *faultproxy.Proxy, matches func(answer []byte) bool, call func() error) {
	t.Helper()
	before := proxy.Lost()
	proxy.Lose(matches)
	err := call()
	proxy.Lose(nil)
	require.Error(t, err)
	require.True(t, postgres.IsOutage(err), "%v", err)
	require.Greater(t, proxy.Lost(), before)
}

// TestCommit covers a commit that succeeded and whose response was lost: the repeated call
// finds its result.
func TestCommit(t *testing.T) {
	t.Parallel()

	for name, expires := range map[string]bool{"ASubmit": false, "ASubmitThatReads": true} {
		t.Run("Of"+name+"IsFoundByItsIdempotencyKey", func(t *testing.T) {
			t.Parallel()
			s, proxy := proxied(t)
			in, key, later := jobstest.Submission(), "once", time.Now().Add(time.Hour)
			in.IdempotencyKey = &key
			written := func(answer []byte) bool { return bytes.Contains(answer, []byte("COMMIT\x00")) }
			if expires {
				in.ExpiresAt = &later
			} else { // a single statement without a transaction
				parsed := false
				written = func(answer []byte) bool {
					if bytes.Contains(answer, []byte("queue_order\x00")) {
						parsed = true
						return false
					}
					return parsed && bytes.Contains(answer, []byte("SELECT 1\x00"))
				}
			}

			loseAnswer(t, proxy, written, func() error { _, _, err := s.Submitter.Submit(t.Context(), s.Client, in); return err })
			job, again, err := s.Submitter.Submit(t.Context(), s.Client, in)

			require.NoError(t, err)
			require.True(t, again)
			require.Equal(t, models.JobQueued, job.Status)
			require.Equal(t, 1, s.Count(t, "jobs"))
			s.RequireInvariants(t)
		})
	}

	t.Run("OfALeaseIsFoundByItsRequestID", func(t *testing.T) {
		t.Parallel()
		s, proxy := proxied(t)
		job, worker := s.Submit(t), s.Worker(t, "one")
		call := lease.LeaseCall{WorkerID: worker.WorkerID, RequestID: "r1"}

		loseCommit(t, proxy, func() error { _, _, err := s.Leaser.Lease(t.Context(), worker, call); return err })
		lease, _, err := s.Leaser.Lease(t.Context(), worker, call)

		require.NoError(t, err)
		require.Equal(t, job.ID, lease.Job.ID)
		require.Equal(t, 1, s.Count(t, "job_attempts"))
		s.RequireInvariants(t)
	})

	t.Run("OfAnAttemptsEndIsFoundByItsToken", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			call func(*jobstest.Stack, jobs.Principal, lease.Fence, *jobs.UploadedObject) error
			ends models.JobStatus
		}{
			"Complete": {func(s *jobstest.Stack, p jobs.Principal, f lease.Fence, video *jobs.UploadedObject) error {
				_, err := s.Attempts.Complete(context.Background(), p, f, lease.Completion{Video: video})
				return err
			}, models.JobCompleted},
			"Fail": {func(s *jobstest.Stack, p jobs.Principal, f lease.Fence, _ *jobs.UploadedObject) error {
				_, err := s.Attempts.Fail(context.Background(), p, f, lease.Failure{Class: models.FailTransient, Message: "no luck"})
				return err
			}, models.JobScheduled},
			"Release": {func(s *jobstest.Stack, p jobs.Principal, f lease.Fence, _ *jobs.UploadedObject) error {
				_, err := s.Attempts.Release(context.Background(), p, f, models.FailPreempted)
				return err
			}, models.JobQueued},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, proxy := proxied(t)
				job, worker := s.Submit(t), s.Worker(t, "one")
				_, fence := s.Lease(t, worker)
				video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))

				loseCommit(t, proxy, func() error { return c.call(s, worker, fence, &video) })
				events := s.Count(t, "job_events")
				require.NoError(t, c.call(s, worker, fence, &video))

				require.Equal(t, c.ends, s.Reload(t, job.ID).Status)
				require.Equal(t, events, s.Count(t, "job_events"), "it happened once")
				s.RequireInvariants(t)
			})
		}
	})

	t.Run("OfACheckpointIsFoundByItsKey", func(t *testing.T) {
		t.Parallel()
		s, proxy := proxied(t)
		s.Submit(t)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)
		saved := jobs.Checkpoint{Object: s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("half a video")), Step: 5, Percent: 50}

		loseCommit(t, proxy, func() error { _, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, saved); return err })
		_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, saved)

		require.NoError(t, err)
		require.Equal(t, 1, s.Count(t, "artifacts"))
		s.RequireInvariants(t)
	})
}

// TestPostgreSQLAway covers calls while PostgreSQL is unreachable.
func TestPostgreSQLAway(t *testing.T) {
	t.Parallel()

	t.Run("LeavesNoPartialWrites", func(t *testing.T) {
		t.Parallel()
		s, proxy := proxied(t)
		reads, later := jobstest.Submission(), time.Now().Add(time.Hour)
		reads.ExpiresAt = &later
		for least, in := range map[int]submit.Submission{1: jobstest.Submission(), 4: reads} {
			seen := 0
			for lose := 1; ; lose++ { // at the first response of the submit, the second, and so on
				proxy.Lose(func([]byte) bool { seen++; return seen == lose })
				seen = 0
				_, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
				proxy.Lose(nil)
				s.RequireInvariants(t)
				if err == nil {
					require.Greater(t, lose, least)
					break
				}
				require.True(t, postgres.IsOutage(err), "%v", err)
			}
		}
	})

	t.Run("KeepsTheLeaseOfAWorkerThatReturns", func(t *testing.T) {
		t.Parallel()
		s, proxy := proxied(t)
		s.Submit(t)
		worker := s.Worker(t, "one")
		_, fence := s.Lease(t, worker)

		proxy.Cut()
		_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.True(t, postgres.IsOutage(err), "%v", err)
		proxy.Heal()

		clock := testrun.StartQuietClock()
		testrun.Eventually(t, "the worker is heard again", func() bool {
			_, err := s.Attempts.Heartbeat(context.Background(), worker, fence, nil)
			return err == nil
		})
		require.Less(t, clock.Elapsed(), 2*time.Second)
		s.RequireInvariants(t)
	})
}
