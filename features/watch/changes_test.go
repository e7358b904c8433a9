package watch_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

// changes records what the stream sends.
type changes struct {
	sent chan *models.Job
}

func follow(t *testing.T, s *jobstest.Stack, w *watch.Watcher, p jobs.Principal, f joblist.JobFilter) *changes {
	t.Helper()
	c := &changes{sent: make(chan *models.Job, 10_000)}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	changed, err := w.Changes(ctx, p, f)
	require.NoError(t, err)
	go func() {
		defer close(c.sent)
		watch.Each(ctx, changed, func(j *models.Job) error { c.sent <- j; return nil })
	}()
	return c
}

func (c *changes) next(t *testing.T, id models.JobID, statuses ...models.JobStatus) {
	t.Helper()
	for _, want := range statuses {
		job, open := <-c.sent
		require.True(t, open, "the stream ended before %s", want)
		require.Equal(t, id, job.ID)
		require.Equal(t, want, job.Status)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()

	t.Run("ContainEveryStatusOnce", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		worker := s.Worker(t, "w")
		s.Submit(t) // before anyone follows
		granted, fence := s.Lease(t, worker)
		lost := &watch.Watcher{DB: s.DB, Jobs: s.Reads.Jobs, Notifications: quiet{}}
		own := follow(t, s, s.Watcher, s.Client, joblist.JobFilter{})
		all := follow(t, s, s.Watcher, s.Admin, joblist.JobFilter{})
		unheard := follow(t, s, lost, s.Client, joblist.JobFilter{})

		_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("video"))
		_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		second := s.Submit(t)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, second.ID)
		require.NoError(t, err)

		for _, c := range []*changes{own, all, unheard} {
			c.next(t, granted.Job.ID, models.JobRunning, models.JobCompleting, models.JobCompleted)
			c.next(t, second.ID, models.JobQueued, models.JobCancelled)
		}
	})

	t.Run("AreLimitedToTheCallerAndTheFilter", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		others := follow(t, s, s.Watcher, stranger, joblist.JobFilter{})
		ended := follow(t, s, s.Watcher, s.Client, joblist.JobFilter{Status: []models.JobStatus{models.JobCancelled}})

		job := s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		theirs, _, err := s.Submitter.Submit(t.Context(), stranger, submit.Submission{Model: "testcard", Prompt: "x"})
		require.NoError(t, err)

		ended.next(t, job.ID, models.JobCancelled)
		others.next(t, theirs.ID, models.JobQueued)
		_, err = s.Watcher.Changes(t.Context(), stranger, joblist.JobFilter{AccountID: s.Account.ID})
		require.ErrorIs(t, err, apierror.New(apierror.CodeNotFound, ""))
	})

	t.Run("EndForASlowFollower", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		slow, err := s.Watcher.Changes(t.Context(), s.Admin, joblist.JobFilter{})
		require.NoError(t, err)
		defer slow.Close()
		swift := follow(t, s, s.Watcher, s.Admin, joblist.JobFilter{})

		const some = watch.MaxChanges/2 + 2
		for before := range 2 {
			s.Exec(t, `INSERT INTO job_events (job_id, seq, run, type)
				SELECT ?0, 1 + ?1 * ?2 + n, 1, CASE n % 2 WHEN 1 THEN 'LEASED' ELSE 'REQUEUED' END FROM generate_series(1, ?2) n`, job.ID, before, some)
			s.Watcher.Notifications.Publish(t.Context(), "jobs")
			for range some / 2 {
				swift.next(t, job.ID, models.JobAssigned, models.JobQueued)
			}
		}
		_, err = slow.Next(t.Context())

		jobstest.RequireCode(t, err, apierror.CodeUnavailable)
		require.ErrorContains(t, err, "not read fast enough")
	})

	t.Run("EndWithoutLeaks", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		changed, err := s.Watcher.Changes(t.Context(), s.Client, joblist.JobFilter{})
		require.NoError(t, err)

		require.ErrorIs(t, watch.Each(ctx, changed, nil), context.Canceled)
		require.Zero(t, watch.ChangeFollowers(s.Watcher))
	})
}

// The filter in PostgreSQL and the filter of the stream must agree.
func TestMatches(t *testing.T) {
	t.Parallel()
	require.Equal(t, 15, reflect.TypeFor[joblist.JobFilter]().NumField(),
		"JobFilter has a field more: have models.JobFilter.Matches look at it, or watch.Watcher.Changes refuse it, and then count it here")
	s := jobstest.New(t)
	job := s.Submit(t)
	_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
	require.NoError(t, err)
	job = s.Reload(t, job.ID)
	for _, f := range []joblist.JobFilter{
		{},
		{AccountID: job.AccountID}, {AccountID: models.NewAccountID()},
		{Status: []models.JobStatus{models.JobQueued, models.JobCancelled}}, {Status: []models.JobStatus{models.JobQueued}},
		{Type: job.Type}, {Type: "other"}, {Model: job.Model}, {Model: "other"}, {UserID: "someone"},
		{Tier: []models.Tier{job.Tier}}, {Tier: []models.Tier{models.TierFree}},
		{FailureClass: []models.FailureClass{models.FailPoison}},
		{CreatedAfter: job.CreatedAt}, {CreatedAfter: job.CreatedAt.Add(-time.Microsecond)},
		{CreatedBefore: job.CreatedAt}, {CreatedBefore: job.CreatedAt.Add(time.Microsecond)},
	} {
		listed, err := joblist.ListJobs(t.Context(), s.DB, f, "", 10)
		require.NoError(t, err)
		require.Equal(t, len(listed.Jobs) == 1, f.Matches(job), "%+v", f)
	}
}
