package operate_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

// dies submits a job that fails for good, and returns it with its dead letter.
func dies(t *testing.T, s *jobstest.Stack, worker jobs.Principal, class models.FailureClass, reason string) (*models.Job,
	*models.DeadLetter) {
	t.Helper()
	s.Submit(t)
	return fails(t, s, worker, class, reason)
}

// fails makes the due job fail for good.
func fails(t *testing.T, s *jobstest.Stack, worker jobs.Principal, class models.FailureClass, reason string) (*models.Job,
	*models.DeadLetter) {
	t.Helper()
	granted, fence := s.Lease(t, worker)
	_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: class, Message: reason})
	require.NoError(t, err)
	job := s.Reload(t, granted.Job.ID)
	require.Equal(t, models.JobFailed, job.Status)
	letter, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, job.Run)
	require.NoError(t, err)
	return job, letter
}

func deadLetter(t *testing.T, s *jobstest.Stack, id models.DeadLetterID) *models.DeadLetter {
	t.Helper()
	found, err := s.Reads.DeadLetters.Get(t.Context(), s.Admin, id)
	require.NoError(t, err)
	return found
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()

	t.Run("OfADeadEndpointAreForTheOwnerOfTheJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{
			Model: "testcard", Prompt: "a fox", Params: []byte(`{"durationSeconds": 1, "pace": 0}`), MaxAttempts: new(1),
		})
		require.NoError(t, err)

		_, letter := fails(t, s, s.Worker(t, "one"), models.FailEndpoint, "example.com returned status 500; expected 200–299.")
		stats, err := s.Reads.DeadLetters.Stats(t.Context(), nil)
		require.NoError(t, err)
		groups, err := s.Reads.DeadLetters.Groups(t.Context(), models.DeadLetterFilter{Audience: []models.Audience{models.AudienceCustomer}})
		require.NoError(t, err)
		health, err := alerts.ReadHealth(t.Context(), s.DB, time.Minute, 100)
		require.NoError(t, err)

		require.Equal(t, models.AudienceCustomer, letter.Audience())
		require.Zero(t, stats.Total)
		require.Len(t, groups, 1)
		require.Zero(t, health.DeadLetters)
	})

	t.Run("AreGroupedByTheirCause", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		_, first := dies(t, s, worker, models.FailUnauthorized, "the frame 17 shows a face")
		dies(t, s, worker, models.FailPoison, "no such style")
		_, last := dies(t, s, worker, models.FailUnauthorized, "the frame 230 shows a face")
		_, settled := dies(t, s, worker, models.FailUnauthorized, "the frame 1 shows a face")
		_, err := s.DeadLetters.Discard(t.Context(), s.Admin, settled.ID, "")
		require.NoError(t, err)

		groups, err := s.Reads.DeadLetters.Groups(t.Context(), models.DeadLetterFilter{})
		require.NoError(t, err)
		resolved, err := s.Reads.DeadLetters.Groups(t.Context(), models.DeadLetterFilter{Resolved: true})
		require.NoError(t, err)

		require.Len(t, groups, 2)
		require.Equal(t, &models.DeadLetterGroup{
			Fingerprint: first.Fingerprint, FailureClass: models.FailUnauthorized, Model: "testcard", Count: 2,
			FirstAt: first.CreatedAt, LastAt: last.CreatedAt, Reason: "the frame 230 shows a face",
		}, groups[0])
		require.Equal(t, 1, groups[1].Count)
		require.Len(t, resolved, 1)
		require.Equal(t, "the frame 1 shows a face", resolved[0].Reason)
	})

	t.Run("OfCustomersAreListedOnRequest", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		_, ours := dies(t, s, worker, models.FailUnauthorized, "no key")
		var theirs []models.DeadLetterID
		for _, class := range []models.FailureClass{models.FailInvalidInput, models.FailContentPolicy} {
			_, letter := dies(t, s, worker, class, "no")
			theirs = append([]models.DeadLetterID{letter.ID}, theirs...)
		}
		parent := s.Submit(t)
		child := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.DependsOn = []models.JobID{parent.ID} })
		_, err := s.Canceller.Cancel(t.Context(), s.Client, parent.ID)
		require.NoError(t, err)
		cascade, err := models.FindDeadLetter(t.Context(), s.DB, child.ID, 1)
		require.NoError(t, err)
		theirs = append([]models.DeadLetterID{cascade.ID}, theirs...)
		both := []models.Audience{models.AudienceOperator, models.AudienceCustomer}
		list := func(f models.DeadLetterFilter) (ids []models.DeadLetterID) {
			page, err := s.Reads.DeadLetters.List(t.Context(), f, paging.Request{First: 10})
			require.NoError(t, err)
			n, err := s.Reads.DeadLetters.Count(t.Context(), f)
			require.NoError(t, err)
			require.Len(t, page.Items, n)
			for _, letter := range page.Items {
				ids = append(ids, letter.ID)
			}
			return ids
		}

		require.Equal(t, []models.DeadLetterID{ours.ID}, list(models.DeadLetterFilter{}))
		require.Equal(t, theirs, list(models.DeadLetterFilter{Audience: []models.Audience{models.AudienceCustomer}}))
		require.Equal(t, append(theirs, ours.ID), list(models.DeadLetterFilter{Audience: both}))
		require.Equal(t, []models.DeadLetterID{cascade.ID}, list(models.DeadLetterFilter{FailureClass: models.FailDependency}),
			"a cause names them")
		require.Equal(t, []models.Audience{models.AudienceCustomer, models.AudienceOperator},
			[]models.Audience{cascade.Audience(), ours.Audience()})
		for _, c := range []struct {
			audience []models.Audience
			n        int
		}{{nil, 1}, {both[1:], 3}, {both, 4}} {
			stats, err := s.Reads.DeadLetters.Stats(t.Context(), c.audience)
			require.NoError(t, err)
			require.Equal(t, c.n, stats.Total)
			groups, err := s.Reads.DeadLetters.Groups(t.Context(), models.DeadLetterFilter{Audience: c.audience})
			require.NoError(t, err)
			require.Len(t, groups, c.n)
		}
		surroundings, err := models.GetSurroundings(t.Context(), s.DB)
		require.NoError(t, err)
		require.Equal(t, 1, surroundings.DeadLetters, "what the doctor advises on")
		op, err := s.Bulk.Redrive(t.Context(), s.Admin, bulk.RedriveRequest{Limit: 10})
		require.NoError(t, err)
		require.Equal(t, 1, op.Matched)
		_, err = s.DeadLetters.Redrive(t.Context(), s.Admin, theirs[1], operate.Edit{})
		require.NoError(t, err, "both can be redriven")
	})

	t.Run("AreCounted", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		none, err := s.Reads.DeadLetters.Stats(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, &models.DeadLetterStats{ByProvider: []byte("{}"), ByModel: []byte("{}"), ByClass: []byte("{}")}, none)
		worker := s.Worker(t, "one")
		dies(t, s, worker, models.FailUnauthorized, "a face")
		_, old := dies(t, s, worker, models.FailUnauthorized, "a face")
		dies(t, s, worker, models.FailPoison, "no key")
		s.Exec(t, "UPDATE dead_letters SET created_at = created_at - interval '1 hour', provider = NULL WHERE id = ?", old.ID)

		stats, err := s.Reads.DeadLetters.Stats(t.Context(), nil)

		require.NoError(t, err)
		require.Equal(t, 3, stats.Total)
		require.InDelta(t, 3600, *stats.OldestAgeSeconds, 60)
		require.JSONEq(t, `{"static": 2, "none": 1}`, string(stats.ByProvider))
		require.JSONEq(t, `{"testcard": 3}`, string(stats.ByModel))
		require.JSONEq(t, `{"UNAUTHORIZED": 2, "POISON": 1}`, string(stats.ByClass))
	})

	t.Run("AreListedByFilterAndPage", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		_, a := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, b := dies(t, s, worker, models.FailPoison, "no key")
		_, c := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, err := s.DeadLetters.Discard(t.Context(), s.Admin, b.ID, "")
		require.NoError(t, err)

		for name, c := range map[string]struct {
			filter   models.DeadLetterFilter
			expected []models.DeadLetterID
		}{
			"open":        {models.DeadLetterFilter{}, []models.DeadLetterID{c.ID, a.ID}},
			"resolved":    {models.DeadLetterFilter{Resolved: true}, []models.DeadLetterID{b.ID}},
			"fingerprint": {models.DeadLetterFilter{Fingerprint: a.Fingerprint}, []models.DeadLetterID{c.ID, a.ID}},
			"class":       {models.DeadLetterFilter{FailureClass: models.FailPoison}, nil},
			"model":       {models.DeadLetterFilter{Model: "other"}, nil},
			"provider":    {models.DeadLetterFilter{Provider: "static"}, []models.DeadLetterID{c.ID, a.ID}},
		} {
			page, err := s.Reads.DeadLetters.List(t.Context(), c.filter, paging.Request{First: 10})
			require.NoError(t, err, name)
			var found []models.DeadLetterID
			for _, letter := range page.Items {
				found = append(found, letter.ID)
			}
			require.Equal(t, c.expected, found, name)
			n, err := s.Reads.DeadLetters.Count(t.Context(), c.filter)
			require.NoError(t, err)
			require.Len(t, c.expected, n, name)
		}
		page, err := s.Reads.DeadLetters.List(t.Context(), models.DeadLetterFilter{}, paging.Request{First: 1})
		require.NoError(t, err)
		require.True(t, page.More)
		page, err = s.Reads.DeadLetters.List(t.Context(), models.DeadLetterFilter{}, paging.Request{First: 1, After: page.End})
		require.NoError(t, err)
		require.Equal(t, a.ID, page.Items[0].ID)
		require.False(t, page.More)
		for _, f := range []models.DeadLetterFilter{{Fingerprint: "\x00"}, {Model: string(make([]byte, 300))}, {Provider: "\xff"}} {
			_, err := s.Reads.DeadLetters.List(t.Context(), f, paging.Request{First: 1})
			jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		}
	})
}

func TestDiscard(t *testing.T) {
	t.Parallel()

	t.Run("ResolvesADeadLetterOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")

		settled, err := s.DeadLetters.Discard(t.Context(), s.Admin, dead.ID, "told the customer")

		require.NoError(t, err)
		require.Equal(t, models.ResolvedDiscarded, settled.Resolution)
		require.Equal(t, string(s.Admin.KeyID), settled.ResolvedBy)
		require.Equal(t, "told the customer", settled.Note)
		require.False(t, settled.ResolvedAt.IsZero())
		before := s.Dump(t)
		again, err := s.DeadLetters.Discard(t.Context(), s.Admin, dead.ID, "another note")
		require.NoError(t, err)
		require.Equal(t, settled, again)
		_, err = s.DeadLetters.Redrive(t.Context(), s.Admin, dead.ID, operate.Edit{})
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Equal(t, before, s.Dump(t))
		require.Equal(t, models.JobFailed, s.Reload(t, job.ID).Status)
	})

	t.Run("RefusesALongNote", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.DeadLetters.Discard(t.Context(), s.Admin, models.NewDeadLetterID(), string(make([]rune, 1_001)))
		jobstest.RequireInvalid(t, err, "note")
	})

	t.Run("IsForOperators", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		before := s.Dump(t)

		for _, p := range []jobs.Principal{s.Client, s.Enrolment, {}} {
			_, err := s.DeadLetters.Discard(t.Context(), p, dead.ID, "")
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.DeadLetters.Redrive(t.Context(), p, dead.ID, operate.Edit{})
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Reads.DeadLetters.Get(t.Context(), p, dead.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Bulk.Redrive(t.Context(), p, bulk.RedriveRequest{Limit: 10})
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Bulk.Start(t.Context(), p, bulk.Request{Action: joblist.BulkRedrive})
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
		}
		for _, id := range []models.DeadLetterID{models.NewDeadLetterID(), "dead_1", "", models.DeadLetterID(dead.JobID)} {
			_, err := s.DeadLetters.Discard(t.Context(), s.Admin, id, "")
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.DeadLetters.Redrive(t.Context(), s.Admin, id, operate.Edit{})
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		require.Equal(t, before, s.Dump(t))
	})
}
