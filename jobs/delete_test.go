package jobs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// secret stands for whatever a job's owner would not have others read.
const secret = "wombat"

// secretJob is a job full of the secret that failed for good.
func secretJob(t *testing.T) (*jobstest.Stack, *models.Job) {
	t.Helper()
	s := jobstest.New(t)
	hook(t, s, newReceiver(t))
	job := submitAs(t, s, s.Client, func(in *jobs.Submission) {
		in.CallbackURL = "https://example.com/?token=" + secret
		in.Prompt, in.Metadata, in.IdempotencyKey = "a "+secret, []byte(`{"title": "`+secret+`"}`), new("k")
	})
	worker := s.Worker(t, "one")
	_, fence := s.Lease(t, worker)
	_, err := s.Holder.ReportProgress(t.Context(), worker, fence, jobs.ProgressReport{
		Progress: models.Progress{Percent: 40, Phase: models.PhaseRendering, Message: "drawing the " + secret},
	})
	require.NoError(t, err)
	o := uploadAll(t, s, worker, fence)
	_, err = s.Holder.Fail(t.Context(), worker, fence, jobs.Failure{
		Class: models.FailContentPolicy, Message: "no " + secret + " here", Log: &o.log,
	})
	require.NoError(t, err)
	s.Exec(t, `INSERT INTO job_runs (job_id, run, status, params, failure_reason, attempt_no, completed_at)
		VALUES (?, 9, 'FAILED', ?, ?, 1, now())`, job.ID, `{"style": "`+secret+`"}`, secret)
	s.Exec(t, `INSERT INTO dead_letters (id, job_id, run, model, failure_class, reason, fingerprint, attempts, created_at)
		VALUES (?, ?, 9, 'testcard', 'CONTENT_POLICY', ?, 'f', 1, now())`, models.NewDeadLetterID(), job.ID, secret)
	s.Exec(t, `UPDATE jobs SET output = ?, cancel_reason = ?, params = params || ? WHERE id = ?`,
		`{"text": "`+secret+`"}`, secret, `{"style": "`+secret+`"}`, job.ID)
	s.Exec(t, `UPDATE job_attempts SET error_detail = ?`, secret)
	return s, job
}

// stored lists what the store holds.
func stored(t require.TestingT, s *jobstest.Stack) []string {
	page, err := s.Objects.List(context.Background(), "", 900)
	require.NoError(t, err)
	keys := []string{}
	for _, object := range page {
		keys = append(keys, object.Key)
	}
	return keys
}

func TestDelete(t *testing.T) {
	t.Parallel()

	t.Run("LeavesNothingOfWhatWasSaidOrMade", func(t *testing.T) {
		t.Parallel()

		s, job := secretJob(t)
		require.Contains(t, fmt.Sprint(s.Dump(t)), secret)
		before := s.Reload(t, job.ID)

		deleted, err := s.Deleter.Delete(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		_, err = s.Upkeep.DeleteObjects(t.Context())

		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(s.Dump(t)), secret)
		require.Empty(t, stored(t, s))
		require.Zero(t, s.Count(t, "artifacts")+s.Count(t, "uploads")+s.Count(t, "object_deletions"))
		prompts, err := s.Reader.Prompts(t.Context(), []models.JobID{job.ID})
		require.NoError(t, err)
		require.Empty(t, prompts)
		require.False(t, deleted.DeletedAt.IsZero())
		require.Equal(t, models.JobFailed, deleted.Status)
		require.Equal(t, "k", deleted.IdempotencyKey)
		require.Empty(t, deleted.RequestDigest, "by which a guess of the prompt could be confirmed")
		require.Equal(t, before.EventSeq, deleted.EventSeq)
		letters := ""
		require.NoError(t, s.DB.NewRaw("SELECT string_agg(resolution, ',') FROM dead_letters").Scan(t.Context(), &letters))
		require.Contains(t, letters, "DELETED")
		s.RequireInvariants(t)
	})

	t.Run("ShredsThePromptOfEveryRun", func(t *testing.T) {
		t.Parallel()

		s, job := secretJob(t)
		s.Exec(t, "INSERT INTO job_inputs (job_id, run, ciphertext, wrapped_key) SELECT job_id, 2, ciphertext, wrapped_key FROM job_inputs")

		_, err := s.Deleter.Delete(t.Context(), s.Client, job.ID)

		require.NoError(t, err)
		var left int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM job_inputs WHERE wrapped_key IS NOT NULL OR ciphertext <> ''").Scan(t.Context(), &left))
		require.Zero(t, left)
		require.Equal(t, 2, s.Count(t, "job_inputs"))
	})

	t.Run("ReturnsTheSameJobAgain", func(t *testing.T) {
		t.Parallel()

		s, job := secretJob(t)
		first, err := s.Deleter.Delete(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		before := s.Dump(t)

		again, err := s.Deleter.Delete(t.Context(), s.Admin, job.ID)

		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("RefusesWhatWaitsOrRunsOrIsNotTheCallers", func(t *testing.T) {
		t.Parallel()

		s, running, worker, _ := leased(t)
		waiting := s.Submit(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), models.RoleClient)
		before := s.Dump(t)

		for name, c := range map[string]struct {
			p    jobs.Principal
			id   models.JobID
			code jobs.Code
		}{
			"a running job":        {s.Client, running.ID, jobs.CodeConflict},
			"a waiting job":        {s.Client, waiting.ID, jobs.CodeConflict},
			"another's job":        {stranger, waiting.ID, jobs.CodeNotFound},
			"the worker":           {worker, running.ID, jobs.CodeNotFound},
			"an unknown job":       {s.Client, models.NewJobID(), jobs.CodeNotFound},
			"what is no id at all": {s.Admin, "job_1", jobs.CodeNotFound},
		} {
			_, err := s.Deleter.Delete(t.Context(), c.p, c.id)

			require.Error(t, err, name)
			jobstest.RequireCode(t, err, c.code)
		}
		require.Equal(t, before, s.Dump(t))
	})
}
