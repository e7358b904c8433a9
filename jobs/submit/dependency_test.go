package submit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/stretchr/testify/require"
)

func TestDependsOn(t *testing.T) {
	t.Parallel()

	t.Run("ReleasesTheChildWhenTheLastParentIsComplete", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		one, two := s.Submit(t), s.Submit(t)
		child := jobstest.SubmitAfter(t, s, two.ID, one.ID, two.ID)
		require.Equal(t, models.JobBlocked, child.Status)
		require.Equal(t, 2, child.BlockedBy)

		jobstest.CompleteNext(t, s, worker)

		require.Equal(t, models.JobBlocked, s.Reload(t, child.ID).Status)
		jobstest.CompleteNext(t, s, worker)
		require.Equal(t, models.JobQueued, s.Reload(t, child.ID).Status)
		require.Equal(t, child.ID, jobstest.CompleteNext(t, s, worker).ID)
		require.Equal(t, []models.JobEventType{models.EventBlocked, models.EventQueued}, jobstest.EventTypes(t, s, child.ID)[:2])
		s.RequireInvariants(t)
	})

	t.Run("CountsParentsThatHaveEnded", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		s.Submit(t)
		done := jobstest.CompleteNext(t, s, worker)
		gone := s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, gone.ID)
		require.NoError(t, err)

		ready, doomed := jobstest.SubmitAfter(t, s, done.ID), jobstest.SubmitAfter(t, s, done.ID, gone.ID)

		require.Equal(t, models.JobQueued, ready.Status)
		require.Equal(t, models.JobFailed, doomed.Status)
		require.Equal(t, models.FailDependency, doomed.FailureClass)
		require.Contains(t, doomed.FailureReason, gone.ID)
		require.Equal(t, []models.JobEventType{models.EventBlocked, models.EventDeadLettered, models.EventFailed},
			jobstest.EventTypes(t, s, doomed.ID))
		s.RequireInvariants(t)
	})

	for name, end := range map[string]func(t *testing.T, s *jobstest.Stack, parent models.JobID){
		"Failed": func(t *testing.T, s *jobstest.Stack, _ models.JobID) {
			worker := s.Worker(t, "one")
			_, fence := s.Lease(t, worker)
			_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "No."})
			require.NoError(t, err)
		},
		"Cancelled": func(t *testing.T, s *jobstest.Stack, parent models.JobID) {
			_, err := s.Canceller.Cancel(t.Context(), s.Client, parent)
			require.NoError(t, err)
		},
		"Expired": func(t *testing.T, s *jobstest.Stack, parent models.JobID) {
			s.Exec(t, "UPDATE jobs SET expires_at = clock_timestamp() WHERE id = ?", parent)
			n, err := s.Releaser.Expire(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
	} {
		t.Run("FailsAllDescendantsOfAParentThat"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			parent := s.Submit(t)
			last := parent
			var children []models.JobID
			for range 30 {
				last = jobstest.SubmitAfter(t, s, last.ID)
				children = append(children, last.ID)
			}
			other := jobstest.SubmitAfter(t, s, s.Submit(t).ID)

			end(t, s, parent.ID)

			for _, id := range children {
				child := s.Reload(t, id)
				require.Equal(t, models.JobFailed, child.Status)
				require.Equal(t, models.FailDependency, child.FailureClass)
			}
			require.Equal(t, models.JobBlocked, s.Reload(t, other.ID).Status)
			s.RequireInvariants(t)
		})
	}

	for name, end := range map[string]func(t *testing.T, s *jobstest.Stack, parent models.JobID){
		"Fails": func(t *testing.T, s *jobstest.Stack, parent models.JobID) {
			_, err := s.Canceller.Cancel(t.Context(), s.Client, parent)
			require.NoError(t, err)
		},
		"Completes": func(t *testing.T, s *jobstest.Stack, _ models.JobID) { jobstest.CompleteNext(t, s, s.Worker(t, "one")) },
	} {
		t.Run("NotifiesThousandsOfChildrenTogetherWhenTheirParent"+name, func(t *testing.T) {
			t.Parallel()

			const children = 2_000
			s := jobstest.New(t)
			parent := s.Submit(t)
			child := jobstest.SubmitAfter(t, s, parent.ID)
			for _, query := range []string{
				`CREATE TABLE more AS SELECT gen_random_uuid() AS id FROM generate_series(2, ?0)`,
				`INSERT INTO jobs (id, account_id, created_by, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, blocked_by, event_seq, phase)
					SELECT m.id, account_id, created_by, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, blocked_by, event_seq, phase
					FROM jobs j, more m WHERE j.id = ?1`,
				`INSERT INTO job_dependencies SELECT m.id, depends_on FROM job_dependencies, more m`,
				`INSERT INTO job_events (job_id, seq, run, type, payload) SELECT m.id, seq, run, type, payload FROM job_events, more m WHERE job_id = ?1`,
				`INSERT INTO job_inputs SELECT m.id, ciphertext, wrapped_key FROM job_inputs, more m WHERE job_id = ?1`,
				`UPDATE accounts SET queued = queued + ?0 - 1 WHERE id = (SELECT account_id FROM jobs WHERE id = ?1)`,
			} {
				s.Exec(t, query, children, child.ID)
			}
			s.RequireInvariants(t)
			count := &jobstest.QueryCount{}
			s.Canceller.DB, s.Attempts.DB = s.DB.WithQueryHook(count), s.DB.WithQueryHook(count)

			end(t, s, parent.ID)

			require.Less(t, count.N.Load(), int64(60))
			require.Equal(t, children-100, s.Count(t, "unsettled"), "one transaction changes a hundred")
			health, err := alerts.ReadHealth(t.Context(), s.DB, time.Minute, 10)
			require.NoError(t, err)
			require.Equal(t, 10, health.Unsettled, "counted up to the limit")
			require.Positive(t, health.UnsettledSeconds)
			s.RequireInvariants(t)
			settled, err := s.Settler.Settle(t.Context())
			require.NoError(t, err)
			require.Equal(t, children-100, settled)
			status := map[bool]models.JobStatus{true: models.JobFailed, false: models.JobQueued}[name == "Fails"]
			var told int
			require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM jobs WHERE status = ?", status).Scan(t.Context(), &told))
			require.Equal(t, children, told)
			s.RequireInvariants(t)
		})
	}

	t.Run("AlsoWaitsForRunAt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		parent := s.Submit(t)
		child := jobstest.SubmitWith(t, s, func(in *submit.Submission) {
			in.DependsOn, in.RunAt = []models.JobID{parent.ID}, new(time.Now().Add(time.Hour))
		})

		jobstest.CompleteNext(t, s, worker)

		require.Equal(t, models.JobBlocked, s.Reload(t, child.ID).Status)
		require.Zero(t, s.Reload(t, child.ID).BlockedBy)
		require.Nil(t, jobstest.LeaseNext(t, s, worker))
		s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp() WHERE id = ?", child.ID)
		n, err := s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, models.JobQueued, s.Reload(t, child.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("ReleasesAChildSubmittedWhileItsParentEnds", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for round := range 5 {
			worker := s.Worker(t, fmt.Sprint(round))
			parent := s.Submit(t)
			_, fence := s.Lease(t, worker)
			video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
			children := make([]*models.Job, 4)
			errs := make([]error, 5)
			var racing sync.WaitGroup
			for i := range children {
				racing.Go(func() {
					children[i], _, errs[i] = jobstest.TrySubmit(context.Background(), s,
						func(in *submit.Submission) { in.DependsOn = []models.JobID{parent.ID} })
				})
			}
			racing.Go(func() {
				_, errs[4] = s.Attempts.Complete(context.Background(), worker, fence, lease.Completion{Video: &video})
			})
			racing.Wait()

			for _, err := range errs {
				require.NoError(t, err)
			}
			for _, child := range children {
				require.Equal(t, models.JobQueued, s.Reload(t, child.ID).Status)
			}
			for range children {
				jobstest.CompleteNext(t, s, worker)
			}
		}
		s.RequireInvariants(t)
	})

	t.Run("HoldsUpNoSubmitWhileDependentsFail", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		parent := s.Submit(t)
		child := jobstest.SubmitAfter(t, s, parent.ID)
		tx, err := s.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = tx.NewRaw("SELECT FROM jobs WHERE id = ? FOR UPDATE", child.ID).Exec(t.Context())
		require.NoError(t, err)
		cancelled := make(chan error)
		go func() {
			_, err := s.Canceller.Cancel(context.Background(), s.Client, parent.ID)
			cancelled <- err
		}()
		s.WaitForLocks(t, 1)

		s.Submit(t)

		require.NoError(t, tx.Rollback())
		require.NoError(t, <-cancelled)
		require.Equal(t, models.JobFailed, s.Reload(t, child.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("RefusesParentsOfAnotherAccount", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		foreign, _, err := s.Submitter.Submit(t.Context(), s.Admin, submit.Submission{Model: "testcard", Prompt: "secret"})
		require.NoError(t, err)
		own := s.Submit(t)
		many := slices.Repeat([]models.JobID{own.ID}, 101)
		before := s.Dump(t)

		for _, on := range [][]models.JobID{{foreign.ID}, {own.ID, foreign.ID}, {models.NewJobID()}, {"job_nonsense"}, {""},
			{models.JobID(s.Account.ID)}} {
			_, _, err := jobstest.TrySubmit(t.Context(), s, func(in *submit.Submission) { in.DependsOn = on })
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		_, _, err = jobstest.TrySubmit(t.Context(), s, func(in *submit.Submission) { in.DependsOn = many })

		jobstest.RequireInvalid(t, err, "dependsOn")
		require.Equal(t, before, s.Dump(t))
	})
}

func TestSubmitConditions(t *testing.T) {
	t.Parallel()

	t.Run("RefuseInvalidTimes", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		now := time.Now()
		before := s.Dump(t)
		for name, c := range map[string]struct {
			field  string
			change func(*submit.Submission)
		}{
			"an expiry in the past": {"expiresAt", func(in *submit.Submission) { in.ExpiresAt = new(now.Add(-time.Second)) }},
			"an expiry in the year 10000": {"expiresAt", func(in *submit.Submission) {
				in.ExpiresAt = new(time.Date(10000, 1, 1, 0, 0, 0, 0,
					time.UTC))
			}},
			"a start two years ahead": {"runAt", func(in *submit.Submission) { in.RunAt = new(now.AddDate(2, 0, 0)) }},
			"an expiry before the start": {"expiresAt", func(in *submit.Submission) {
				in.RunAt, in.ExpiresAt = new(now.Add(time.Hour)), new(now.Add(time.Minute))
			}},
			"an expiry a nanosecond after the start": {"expiresAt", func(in *submit.Submission) {
				start := now.Add(time.Hour).Truncate(time.Microsecond)
				in.RunAt, in.ExpiresAt = &start, new(start.Add(time.Nanosecond))
			}},
			"a demand without a region":  {"requireRegion", func(in *submit.Submission) { in.RequireRegion = true }},
			"a region with a line break": {"region", func(in *submit.Submission) { in.Region = "eu\nwest" }},
			"a delay of zero": {"retry.initialDelaySeconds",
				func(in *submit.Submission) { in.Retry = &models.RetryPolicy{InitialDelaySeconds: new(0.0)} }},
			"a delay of two days": {"retry.maxDelaySeconds",
				func(in *submit.Submission) { in.Retry = &models.RetryPolicy{MaxDelaySeconds: new(172800.0)} }},
			"a maximum below the minimum": {"retry.maxDelaySeconds", func(in *submit.Submission) {
				in.Retry = &models.RetryPolicy{InitialDelaySeconds: new(9.0), MaxDelaySeconds: new(8.0)}
			}},
		} {
			_, _, err := jobstest.TrySubmit(t.Context(), s, c.change)

			require.Error(t, err, name)
			jobstest.RequireInvalid(t, err, c.field)
		}
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("ScheduleAJobAndQueueItOnTime", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		later := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(time.Hour)) })
		require.Equal(t, models.JobScheduled, later.Status)
		past := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(-time.Hour)) })
		require.Equal(t, models.JobQueued, past.Status)
		require.Equal(t, past.ID, jobstest.CompleteNext(t, s, worker).ID)
		require.Nil(t, jobstest.LeaseNext(t, s, worker))
		n, err := s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)

		s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp() WHERE id = ?", later.ID)
		n, err = s.Releaser.Due(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, later.ID, jobstest.CompleteNext(t, s, worker).ID)
		require.Equal(t, []models.JobEventType{models.EventScheduled, models.EventQueued}, jobstest.EventTypes(t, s, later.ID)[:2])
		s.RequireInvariants(t)
	})

	t.Run("AreComparedForARepeatedKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		at := time.Now().Add(time.Hour)
		ask := func(runAt *time.Time, region string) (*models.Job, bool, error) {
			return jobstest.TrySubmit(t.Context(), s, func(in *submit.Submission) {
				in.IdempotencyKey, in.RunAt, in.Region = new("k"), runAt, region
			})
		}
		first, _, err := ask(&at, "")
		require.NoError(t, err)

		again, deduplicated, err := ask(new(at.UTC()), "")

		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
		_, _, err = ask(nil, "")
		jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
		_, _, err = ask(&at, "eu")
		jobstest.RequireCode(t, err, apierror.CodeIdempotencyConflict)
	})

	t.Run("StillDeduplicateAKeyAfterTheirTimeHasPassed", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		expiry := time.Now().Add(time.Hour)
		ask := func() (*models.Job, bool, error) {
			return jobstest.TrySubmit(t.Context(), s, func(in *submit.Submission) { in.IdempotencyKey, in.ExpiresAt = new("k"), &expiry })
		}
		expiry = time.Now().Add(2 * time.Second)
		first, _, err := ask()
		require.NoError(t, err)
		s.WaitUntil(t, expiry)

		again, deduplicated, err := ask()

		require.NoError(t, err)
		require.True(t, deduplicated)
		require.Equal(t, first.ID, again.ID)
	})

	t.Run("FailAJobThatDidNotStartInTime", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.ExpiresAt = new(time.Now().Add(time.Hour)) })
		started := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.ExpiresAt, in.Priority = new(time.Now().Add(time.Hour)), 9 })
		_, fence := s.Lease(t, worker)
		_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		_, err = s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		s.Exec(t, "UPDATE jobs SET expires_at = clock_timestamp()")

		n, err := s.Releaser.Expire(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, models.JobQueued, s.Reload(t, started.ID).Status, "it was started in time, and lost its worker")
		failed := s.Reload(t, job.ID)
		require.Equal(t, models.JobFailed, failed.Status)
		require.Equal(t, models.FailTimeout, failed.FailureClass)
		s.RequireInvariants(t)
	})
}
