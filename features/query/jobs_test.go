package query_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestJobs(t *testing.T) {
	t.Parallel()

	t.Run("HidesJobsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)

		for _, p := range []jobs.Principal{stranger, s.Enrolment, worker, {}} {
			_, err := s.Reads.Jobs.Get(t.Context(), p, job.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reads.Jobs.State(t.Context(), p, job.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reads.Jobs.Attempt(t.Context(), p, fence.AttemptID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			require.Equal(t, "There is no such attempt.", err.Error())
			_, err = s.Reads.Jobs.Artifact(t.Context(), p, o.Committed)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		for _, p := range []jobs.Principal{s.Client, s.Admin} {
			_, err := s.Reads.Jobs.Get(t.Context(), p, job.ID)
			require.NoError(t, err)
			_, err = s.Reads.Jobs.Attempt(t.Context(), p, fence.AttemptID)
			require.NoError(t, err)
			_, err = s.Reads.Jobs.Artifact(t.Context(), p, o.Committed)
			require.NoError(t, err)
		}
		_, err := s.Reads.Jobs.List(t.Context(), stranger, joblist.JobFilter{AccountID: s.Account.ID}, paging.Request{First: 10})
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		page, err := s.Reads.Jobs.List(t.Context(), stranger, joblist.JobFilter{}, paging.Request{First: 10})
		require.NoError(t, err)
		require.Empty(t, page.Items)
		n, err := s.Reads.Jobs.Count(t.Context(), stranger, joblist.JobFilter{})
		require.NoError(t, err)
		require.Zero(t, n)
		seen, err := s.Reads.Fleet.SeesWorker(t.Context(), stranger, worker.WorkerID)
		require.NoError(t, err)
		require.False(t, seen)
		seen, err = s.Reads.Fleet.SeesWorker(t.Context(), s.Client, worker.WorkerID)
		require.NoError(t, err)
		require.True(t, seen)
	})

	t.Run("ReadsJobsAndStatesInOneBatch", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		var all errgroup.Group
		for i := range 64 {
			all.Go(func() error {
				read := s.Reads.Jobs.Get
				if i%2 == 0 {
					read = s.Reads.Jobs.State
				}
				found, err := read(t.Context(), s.Client, job.ID)
				if err != nil {
					return err
				}
				if found.ID != job.ID || found.Status != models.JobQueued || i%2 == 1 && found.Model != job.Model {
					return fmt.Errorf("%d: %+v", i, found)
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
	})

	t.Run("RefusesInvalidIDs", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, id := range []string{"", "1", "job_", "job_1", "job_" + "zzzzzzzz-0000-7000-8000-000000000000",
			"wrk_01a1fd5f-e5d2-75b1-9880-583b498afce4", "job_\x00", "' OR 1=1"} {
			_, err := s.Reads.Jobs.Get(t.Context(), s.Admin, models.JobID(id))
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reads.Jobs.Attempt(t.Context(), s.Admin, models.AttemptID(id))
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reads.Jobs.Artifact(t.Context(), s.Admin, models.ArtifactID(id))
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Reads.Fleet.Pool(t.Context(), models.PoolID(id))
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			if id != "" {
				_, err = s.Reads.Jobs.List(t.Context(), s.Admin, joblist.JobFilter{AccountID: models.AccountID(id)}, paging.Request{First: 1})
				jobstest.RequireCode(t, err, apierror.CodeNotFound)
			}
		}
	})

	t.Run("RefusesInvalidPages", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		edges := s.Edges(t, s.Submit(t).ID)
		for _, first := range []int{0, -1, 201, 10_000} {
			_, err := s.Reads.Jobs.List(t.Context(), s.Client, joblist.JobFilter{}, paging.Request{First: first})
			jobstest.RequireInvalid(t, err, "first")
			_, err = edges.Events(t.Context(), 0, first)
			jobstest.RequireInvalid(t, err, "first")
			_, err = edges.EventPages(t.Context(), paging.Request{First: first})
			jobstest.RequireInvalid(t, err, "first")
			_, err = s.Reads.Fleet.Workers(t.Context(), models.WorkerFilter{}, paging.Request{First: first})
			jobstest.RequireInvalid(t, err, "first")
			_, err = s.Reads.Fleet.ScalingHistories(t.Context(), []models.PoolID{models.NewPoolID()}, first)
			jobstest.RequireInvalid(t, err, "first")
		}
	})

	t.Run("PagesWithoutGapsOrRepeatsDuringInserts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var expected []models.JobID
		for range 7 {
			expected = append(expected, s.Submit(t).ID)
		}
		slices.Reverse(expected)

		var seen []models.JobID
		of := paging.Request{First: 3}
		for more := true; more; {
			page, err := s.Reads.Jobs.List(t.Context(), s.Client, joblist.JobFilter{}, of)
			require.NoError(t, err)
			for _, job := range page.Items {
				seen = append(seen, job.ID)
			}
			of.After, more = page.End, page.More
			s.Submit(t)
		}

		require.Equal(t, expected, seen)
	})

	t.Run("PagesEvents", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		jobstest.UploadAll(t, s, worker, fence)

		var seen []models.JobEventType
		of := paging.Request{First: 2}
		for more := true; more; {
			pages, err := s.Edges(t, job.ID).EventPages(t.Context(), of)
			require.NoError(t, err)
			for _, e := range pages[job.ID].Items {
				seen = append(seen, e.Type)
			}
			of.After, more = pages[job.ID].End, pages[job.ID].More
		}

		require.Equal(t, jobstest.EventTypes(t, s, job.ID), seen)
	})

	t.Run("Filters", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		failed := jobstest.SubmitAs(t, s, s.Client, nil)
		_, err := s.Attempts.Fail(t.Context(), worker, jobstest.FenceOf(jobstest.LeaseNext(t, s, worker)),
			lease.Failure{Class: models.FailContentPolicy})
		require.NoError(t, err)
		users := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.UserID = "ada" })
		free := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierFree })
		house := jobstest.SubmitAs(t, s, s.Admin, nil)
		everything := []models.JobID{house.ID, free.ID, users.ID, failed.ID}

		for name, c := range map[string]struct {
			filter   joblist.JobFilter
			expected []models.JobID
		}{
			"nothing":       {joblist.JobFilter{}, everything},
			"account":       {joblist.JobFilter{AccountID: s.Account.ID}, everything[1:]},
			"status":        {joblist.JobFilter{Status: []models.JobStatus{models.JobFailed, models.JobCompleted}}, []models.JobID{failed.ID}},
			"tier":          {joblist.JobFilter{Tier: []models.Tier{models.TierFree, models.TierCritical}}, []models.JobID{house.ID, free.ID}},
			"user":          {joblist.JobFilter{UserID: "ada"}, []models.JobID{users.ID}},
			"failure class": {joblist.JobFilter{FailureClass: []models.FailureClass{models.FailContentPolicy}}, []models.JobID{failed.ID}},
			"model":         {joblist.JobFilter{Model: "testcard"}, everything},
			"another model": {joblist.JobFilter{Model: "%"}, nil},
			"type":          {joblist.JobFilter{Type: "video.generate", UserID: "ada"}, []models.JobID{users.ID}},
			"after":         {joblist.JobFilter{CreatedAfter: failed.CreatedAt}, everything[:3]},
			"before":        {joblist.JobFilter{CreatedBefore: users.CreatedAt}, []models.JobID{failed.ID}},
		} {
			page, err := s.Reads.Jobs.List(t.Context(), s.Admin, c.filter, paging.Request{First: 200})
			require.NoError(t, err, name)
			var ids []models.JobID
			for _, job := range page.Items {
				ids = append(ids, job.ID)
			}
			require.Equal(t, c.expected, ids, name)
			n, err := s.Reads.Jobs.Count(t.Context(), s.Admin, c.filter)
			require.NoError(t, err, name)
			require.Len(t, c.expected, n, name)
		}
	})

	t.Run("ShowsWorkersJobsAndQueues", func(t *testing.T) {
		t.Parallel()

		s, job, worker, _ := jobstest.Leased(t)
		idle := s.Worker(t, "two")
		for range 2 {
			jobstest.SubmitAs(t, s, s.Admin, nil)
		}

		held, err := s.Reads.Fleet.CurrentJobs(t.Context(), jobs.Host, []models.WorkerID{worker.WorkerID, idle.WorkerID})

		require.NoError(t, err)
		require.Len(t, held, 1)
		require.Equal(t, job.ID, held[worker.WorkerID].ID)
		queues, err := s.Reads.Queues.Counts(t.Context())
		require.NoError(t, err)
		require.Len(t, queues, 2)
		require.Equal(t, []string{"CRITICAL 2 0", "ENTERPRISE 0 1"}, []string{
			fmt.Sprint(queues[0].Lane, " ", queues[0].Depth, " ", queues[0].Running),
			fmt.Sprint(queues[1].Lane, " ", queues[1].Depth, " ", queues[1].Running),
		})
		require.GreaterOrEqual(t, *queues[0].OldestWaitSeconds, 0.0)
		require.Nil(t, queues[1].OldestWaitSeconds, "what is unknown is not 0")
		names, err := s.Reads.Models.List(t.Context(), s.Reads.Models.Catalogue.Current())
		require.NoError(t, err)
		require.True(t, names[0].Available)
		page, err := s.Reads.Fleet.Workers(t.Context(), models.WorkerFilter{Status: []models.WorkerStatus{models.WorkerIdle}},
			paging.Request{First: 1})
		require.NoError(t, err)
		require.Equal(t, idle.WorkerID, page.Items[0].ID)
		require.False(t, page.More)
	})

	t.Run("SignsALinkThatExpires", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		artifact, err := s.Reads.Jobs.Artifact(t.Context(), s.Client, o.Committed)
		require.NoError(t, err)

		link, err := s.Reads.Jobs.Link(t.Context(), artifact, time.Hour)

		require.NoError(t, err)
		require.NotEmpty(t, link)
		for _, ttl := range []time.Duration{0, -time.Hour, time.Second, 25 * time.Hour} {
			_, err := s.Reads.Jobs.Link(t.Context(), artifact, ttl)
			jobstest.RequireInvalid(t, err, "expiresInSeconds")
		}
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()

	t.Run("SendsEveryStateAndEndsWithTheJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		shown := make(chan models.JobStatus)
		done := make(chan error, 1)
		go func() {
			done <- s.Watcher.Job(t.Context(), s.Client, job.ID, 50*time.Millisecond, func(j *models.Job) error {
				shown <- j.Status
				return nil
			})
		}()
		worker := s.Worker(t, "one")

		require.Equal(t, models.JobQueued, <-shown)
		_, fence := s.Lease(t, worker)
		require.Equal(t, models.JobAssigned, <-shown)
		_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		require.Equal(t, models.JobRunning, <-shown)
		_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy})
		require.NoError(t, err)
		require.Equal(t, models.JobFailed, <-shown)
		require.NoError(t, <-done)
	})

	t.Run("EndsWithItsFollower", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		gone := fmt.Errorf("the follower went away")

		err := s.Watcher.Job(t.Context(), s.Client, job.ID, time.Second, func(*models.Job) error { return gone })

		require.ErrorIs(t, err, gone)
	})

	t.Run("RefusesInvalidCalls", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		watch := func(p jobs.Principal, id models.JobID, every time.Duration) error {
			return s.Watcher.Job(t.Context(), p, id, every, func(*models.Job) error {
				t.Error("it was shown")
				return nil
			})
		}

		jobstest.RequireCode(t, watch(stranger, job.ID, time.Second), apierror.CodeNotFound)
		jobstest.RequireCode(t, watch(s.Client, models.NewJobID(), time.Second), apierror.CodeNotFound)
		jobstest.RequireCode(t, watch(s.Client, "job_1", time.Second), apierror.CodeNotFound)
		for _, every := range []time.Duration{0, -time.Second, 49 * time.Millisecond, 61 * time.Second} {
			jobstest.RequireInvalid(t, watch(s.Client, job.ID, every), "intervalMs")
		}
	})
}
