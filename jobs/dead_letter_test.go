package jobs_test

import (
	"sync"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/bulk"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// dies submits a job that fails for good, and returns it with its dead letter.
func dies(t *testing.T, s *jobstest.Stack, worker jobs.Principal, class models.FailureClass, reason string) (*models.Job, *models.DeadLetter) {
	t.Helper()
	s.Submit(t)
	return fails(t, s, worker, class, reason)
}

// fails has the job that is due fail for good.
func fails(t *testing.T, s *jobstest.Stack, worker jobs.Principal, class models.FailureClass, reason string) (*models.Job, *models.DeadLetter) {
	t.Helper()
	lease, fence := s.Lease(t, worker)
	_, err := s.Holder.Fail(t.Context(), worker, fence, jobs.Failure{Class: class, Message: reason})
	require.NoError(t, err)
	job := s.Reload(t, lease.Job.ID)
	require.Equal(t, models.JobFailed, job.Status)
	letter, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, job.Run)
	require.NoError(t, err)
	return job, letter
}

func letter(t *testing.T, s *jobstest.Stack, id models.DeadLetterID) *models.DeadLetter {
	t.Helper()
	found, err := s.Reader.DeadLetter(t.Context(), s.Admin, id)
	require.NoError(t, err)
	return found
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()

	t.Run("AreGroupedByTheirCause", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		_, first := dies(t, s, worker, models.FailUnauthorized, "the frame 17 shows a face")
		dies(t, s, worker, models.FailPoison, "no such style")
		_, last := dies(t, s, worker, models.FailUnauthorized, "the frame 230 shows a face")
		_, settled := dies(t, s, worker, models.FailUnauthorized, "the frame 1 shows a face")
		_, err := s.Letters.Discard(t.Context(), s.Admin, settled.ID, "")
		require.NoError(t, err)

		groups, err := s.Reader.DeadLetterGroups(t.Context(), models.DeadLetterFilter{})
		require.NoError(t, err)
		resolved, err := s.Reader.DeadLetterGroups(t.Context(), models.DeadLetterFilter{Resolved: true})
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

	t.Run("OfCustomersAreShownOnRequest", func(t *testing.T) {
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
		child := jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.DependsOn = []models.JobID{parent.ID} })
		_, err := s.Canceller.Cancel(t.Context(), s.Client, parent.ID)
		require.NoError(t, err)
		cascade, err := models.FindDeadLetter(t.Context(), s.DB, child.ID, 1)
		require.NoError(t, err)
		theirs = append([]models.DeadLetterID{cascade.ID}, theirs...)
		both := []models.Audience{models.AudienceOperator, models.AudienceCustomer}
		list := func(f models.DeadLetterFilter) (ids []models.DeadLetterID) {
			page, err := s.Reader.DeadLetters(t.Context(), f, paging.Request{First: 10})
			require.NoError(t, err)
			n, err := s.Reader.CountDeadLetters(t.Context(), f)
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
		require.Equal(t, []models.DeadLetterID{cascade.ID}, list(models.DeadLetterFilter{FailureClass: models.FailDependency}), "a cause names them")
		require.Equal(t, []models.Audience{models.AudienceCustomer, models.AudienceOperator}, []models.Audience{cascade.Audience(), ours.Audience()})
		for _, c := range []struct {
			audience []models.Audience
			n        int
		}{{nil, 1}, {both[1:], 3}, {both, 4}} {
			stats, err := s.Reader.DeadLetterStats(t.Context(), c.audience)
			require.NoError(t, err)
			require.Equal(t, c.n, stats.Total)
			groups, err := s.Reader.DeadLetterGroups(t.Context(), models.DeadLetterFilter{Audience: c.audience})
			require.NoError(t, err)
			require.Len(t, groups, c.n)
		}
		surroundings, err := models.GetSurroundings(t.Context(), s.DB)
		require.NoError(t, err)
		require.Equal(t, 1, surroundings.DeadLetters, "what the doctor advises on")
		op, err := s.Bulk.Redrive(t.Context(), s.Admin, bulk.RedriveRequest{Limit: 10})
		require.NoError(t, err)
		require.Equal(t, 1, op.Matched)
		_, err = s.Letters.Redrive(t.Context(), s.Admin, theirs[1], jobs.Edit{})
		require.NoError(t, err, "both can be redriven")
	})

	t.Run("AreCounted", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		none, err := s.Reader.DeadLetterStats(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, &models.DeadLetterStats{ByProvider: []byte("{}"), ByModel: []byte("{}"), ByClass: []byte("{}")}, none)
		worker := s.Worker(t, "one")
		dies(t, s, worker, models.FailUnauthorized, "a face")
		_, old := dies(t, s, worker, models.FailUnauthorized, "a face")
		dies(t, s, worker, models.FailPoison, "no key")
		s.Exec(t, "UPDATE dead_letters SET created_at = created_at - interval '1 hour', provider = NULL WHERE id = ?", old.ID)

		stats, err := s.Reader.DeadLetterStats(t.Context(), nil)

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
		_, err := s.Letters.Discard(t.Context(), s.Admin, b.ID, "")
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
			page, err := s.Reader.DeadLetters(t.Context(), c.filter, paging.Request{First: 10})
			require.NoError(t, err, name)
			var found []models.DeadLetterID
			for _, letter := range page.Items {
				found = append(found, letter.ID)
			}
			require.Equal(t, c.expected, found, name)
			n, err := s.Reader.CountDeadLetters(t.Context(), c.filter)
			require.NoError(t, err)
			require.Len(t, c.expected, n, name)
		}
		page, err := s.Reader.DeadLetters(t.Context(), models.DeadLetterFilter{}, paging.Request{First: 1})
		require.NoError(t, err)
		require.True(t, page.More)
		page, err = s.Reader.DeadLetters(t.Context(), models.DeadLetterFilter{}, paging.Request{First: 1, After: page.End})
		require.NoError(t, err)
		require.Equal(t, a.ID, page.Items[0].ID)
		require.False(t, page.More)
		for _, f := range []models.DeadLetterFilter{{Fingerprint: "\x00"}, {Model: string(make([]byte, 300))}, {Provider: "\xff"}} {
			_, err := s.Reader.DeadLetters(t.Context(), f, paging.Request{First: 1})
			jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		}
	})
}

func TestDiscard(t *testing.T) {
	t.Parallel()

	t.Run("SettlesADeadLetterOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")

		settled, err := s.Letters.Discard(t.Context(), s.Admin, dead.ID, "told the customer")

		require.NoError(t, err)
		require.Equal(t, models.ResolvedDiscarded, settled.Resolution)
		require.Equal(t, string(s.Admin.KeyID), settled.ResolvedBy)
		require.Equal(t, "told the customer", settled.Note)
		require.False(t, settled.ResolvedAt.IsZero())
		before := s.Dump(t)
		again, err := s.Letters.Discard(t.Context(), s.Admin, dead.ID, "another note")
		require.NoError(t, err)
		require.Equal(t, settled, again)
		_, err = s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{})
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Equal(t, before, s.Dump(t))
		require.Equal(t, models.JobFailed, s.Reload(t, job.ID).Status)
	})

	t.Run("RefusesALongNote", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Letters.Discard(t.Context(), s.Admin, models.NewDeadLetterID(), string(make([]rune, 1_001)))
		jobstest.RequireInvalid(t, err, "note")
	})

	t.Run("IsForOperators", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		before := s.Dump(t)

		for _, p := range []jobs.Principal{s.Client, s.Enrolment, {}} {
			_, err := s.Letters.Discard(t.Context(), p, dead.ID, "")
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Letters.Redrive(t.Context(), p, dead.ID, jobs.Edit{})
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Reader.DeadLetter(t.Context(), p, dead.ID)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Bulk.Redrive(t.Context(), p, bulk.RedriveRequest{Limit: 10})
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Bulk.Start(t.Context(), p, bulk.Request{Action: models.BulkRedrive})
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
		}
		for _, id := range []models.DeadLetterID{models.NewDeadLetterID(), "dead_1", "", models.DeadLetterID(dead.JobID)} {
			_, err := s.Letters.Discard(t.Context(), s.Admin, id, "")
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Letters.Redrive(t.Context(), s.Admin, id, jobs.Edit{})
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		require.Equal(t, before, s.Dump(t))
	})
}

func TestRedrive(t *testing.T) {
	t.Parallel()

	t.Run("RunsInCriticalWithAllAttemptsAnew", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job, dead := dies(t, s, worker, models.FailUnauthorized, "a face")

		again, err := s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{})

		require.NoError(t, err)
		require.Equal(t, job.ID, again.ID)
		require.Equal(t, 2, again.Run)
		require.Equal(t, models.JobQueued, again.Status)
		require.Equal(t, models.TierCritical, again.Lane)
		require.Equal(t, job.Tier, again.Tier)
		require.Zero(t, again.Failures)
		require.JSONEq(t, string(job.Params), string(again.Params))
		settled := letter(t, s, dead.ID)
		require.Equal(t, models.ResolvedRedriven, settled.Resolution)
		require.Equal(t, string(s.Admin.KeyID), settled.ResolvedBy)
		require.Equal(t, 1, lo.Count(jobstest.EventTypes(t, s, job.ID), models.EventRedriven))
		s.RequireInvariants(t)
		s.Submit(t)
		require.Equal(t, job.ID, complete(t, s, worker).ID, "it goes before the others")
		s.RequireInvariants(t)
	})

	t.Run("GivesTheSameJobWhenRepeated", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job, dead := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, err := s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{})
		require.NoError(t, err)
		_, newer := fails(t, s, worker, models.FailUnauthorized, "a face")
		require.NotEqual(t, dead.ID, newer.ID)
		before := s.Dump(t)

		again, err := s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{})

		require.NoError(t, err)
		require.Equal(t, job.ID, again.ID)
		require.Equal(t, 2, again.Run)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("OpensOneRunForManyCallers", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		errs := make([]error, 100)
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() { _, errs[i] = s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{}) })
		}
		calls.Wait()

		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, 2, s.Reload(t, job.ID).Run)
		require.Equal(t, 1, lo.Count(jobstest.EventTypes(t, s, job.ID), models.EventRedriven))
		s.RequireInvariants(t)
	})

	t.Run("TakesEditsAndThenStartsFromScratch", func(t *testing.T) {
		t.Parallel()

		s, job, worker := failedJob(t)
		dead, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, 1)
		require.NoError(t, err)

		again, err := s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{
			Params: []byte(`{"durationSeconds": 3, "pace": 0}`), Prompt: new("a harbour in the rain"),
		})

		require.NoError(t, err)
		require.Contains(t, string(again.Params), `"durationSeconds":3`)
		require.Contains(t, string(again.Params), `"resolution"`, "the defaults are filled in")
		require.Greater(t, again.TimeoutSeconds, 0)
		lease, fence := s.Lease(t, worker)
		require.Empty(t, lease.Checkpoints)
		require.JSONEq(t, string(again.Params), string(s.Reload(t, job.ID).Params))
		prompts, err := s.Reader.Prompts(t.Context(), []models.JobID{job.ID})
		require.NoError(t, err)
		require.Equal(t, "a harbour in the rain", prompts[job.ID].Text)
		film := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a film"))
		_, err = s.Holder.Complete(t.Context(), worker, fence, jobs.Completion{Video: &film})
		require.NoError(t, err)
		s.RequireInvariants(t)
	})

	t.Run("KeepsATimeoutThatItsOwnerChose", func(t *testing.T) {
		t.Parallel()

		s, job, _ := failedJob(t)
		s.Exec(t, "UPDATE jobs SET timeout_seconds = 77 WHERE id = ?", job.ID)
		dead, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, 1)
		require.NoError(t, err)

		again, err := s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{Params: []byte(`{"durationSeconds": 3, "pace": 0}`)})

		require.NoError(t, err)
		require.Equal(t, 77, again.TimeoutSeconds)
	})

	t.Run("ChecksEditsAsASubmitDoes", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		before := s.Dump(t)

		for field, e := range map[string]jobs.Edit{
			"prompt":                 {Prompt: new(" ")},
			"params.durationSeconds": {Params: []byte(`{"durationSeconds": -1}`)},
			"params":                 {Params: []byte(`[`)},
		} {
			_, err := s.Letters.Redrive(t.Context(), s.Admin, dead.ID, e)
			jobstest.RequireInvalid(t, err, field)
		}

		require.Equal(t, before, s.Dump(t))
	})

	t.Run("RefusesWhatItsOwnerHasRetried", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job, dead := dies(t, s, s.Worker(t, "one"), models.FailUnauthorized, "a face")
		_, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)

		_, err = s.Letters.Redrive(t.Context(), s.Admin, dead.ID, jobs.Edit{})

		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Contains(t, err.Error(), "retried by the job's owner")
		require.Equal(t, 2, s.Reload(t, job.ID).Run)
	})
}

func TestBulkRedrive(t *testing.T) {
	t.Parallel()

	t.Run("SendsAGroupBackAtAPace", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		var group []*models.Job
		var cause string
		for range 3 {
			job, dead := dies(t, s, worker, models.FailUnauthorized, "a face")
			group, cause = append(group, job), dead.Fingerprint
		}
		other, _ := dies(t, s, worker, models.FailPoison, "no key")

		op, err := s.Bulk.Redrive(t.Context(), s.Admin, bulk.RedriveRequest{Filter: models.DeadLetterFilter{Fingerprint: cause}, Limit: 2})
		require.NoError(t, err)
		require.Equal(t, 2, op.Matched)
		require.Equal(t, 600, op.PerMinute)
		require.JSONEq(t, `{"fingerprint": "`+cause+`"}`, string(op.Filter))
		over := jobstest.FinishBulk(t, s, op.ID)

		require.Equal(t, 2, over.Done)
		for i, run := range []int{2, 2, 1} {
			require.Equal(t, run, s.Reload(t, group[i].ID).Run)
		}
		require.Equal(t, 1, s.Reload(t, other.ID).Run)
		s.RequireInvariants(t)
		for _, limit := range []int{0, -1, 10_001} {
			_, err := s.Bulk.Redrive(t.Context(), s.Admin, bulk.RedriveRequest{Limit: limit})
			jobstest.RequireInvalid(t, err, "limit")
		}
	})

	t.Run("MatchesOnlyJobsWithAnOpenDeadLetter", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		dead, _ := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, settled := dies(t, s, worker, models.FailUnauthorized, "a face")
		_, err := s.Letters.Discard(t.Context(), s.Admin, settled.ID, "it is over")
		require.NoError(t, err)
		s.Submit(t)

		dry, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: models.BulkRedrive, DryRun: true})
		require.NoError(t, err)
		op, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: models.BulkRedrive})
		require.NoError(t, err)
		over := jobstest.FinishBulk(t, s, op.ID)

		require.Equal(t, 1, dry.Matched)
		require.Equal(t, 1, over.Done)
		require.Zero(t, over.Failed)
		require.Equal(t, 2, s.Reload(t, dead.ID).Run)
	})

	for _, action := range []models.BulkAction{models.BulkRedrive, models.BulkRetry} {
		t.Run("WaitsForTheRunsOfItsCanary"+string(action), func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			worker := s.Worker(t, "one")
			var dead []*models.Job
			for range 5 {
				job, _ := dies(t, s, worker, models.FailUnauthorized, "a face")
				dead = append(dead, job)
			}
			op, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{
				Action: action, Canary: new(2), Filter: models.JobFilter{Status: []models.JobStatus{models.JobFailed}},
			})
			require.NoError(t, err)

			require.Equal(t, 2, jobstest.BulkPass(t, s, s.Bulk, "5 s"))
			require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "5 s"), "the first two have yet to run")
			require.Equal(t, dead[0].ID, complete(t, s, worker).ID)
			require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "5 s"))
			fails(t, s, worker, models.FailUnauthorized, "a face")
			require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "5 s"))

			stopped := jobstest.BulkOperation(t, s, op.ID)
			require.True(t, stopped.Paused)
			require.Contains(t, stopped.Errors[0].Message, "1 of the first 2 jobs failed")
			_, err = s.Bulk.Resume(t.Context(), s.Admin, op.ID)
			require.NoError(t, err)
			require.Equal(t, 5, jobstest.FinishBulk(t, s, op.ID).Done)
			require.Equal(t, 2, s.Reload(t, dead[1].ID).Run)
			s.RequireInvariants(t)
		})

		t.Run("GoesOnWhenItsCanaryHasRun"+string(action), func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			worker := s.Worker(t, "one")
			for range 3 {
				dies(t, s, worker, models.FailUnauthorized, "a face")
			}
			op, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{Action: action, Canary: new(1)})
			require.NoError(t, err)
			require.Equal(t, 1, jobstest.BulkPass(t, s, s.Bulk, "5 s"))
			complete(t, s, worker)

			require.Equal(t, 2, jobstest.BulkPass(t, s, s.Bulk, "5 s"))

			require.False(t, jobstest.BulkOperation(t, s, op.ID).FinishedAt.IsZero())
		})
	}
}
