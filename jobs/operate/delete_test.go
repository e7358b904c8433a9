package operate_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestDelete(t *testing.T) {
	t.Parallel()

	t.Run("RemovesThePromptAndAllArtifacts", func(t *testing.T) {
		t.Parallel()

		s, job := jobstest.SecretJob(t)
		require.Contains(t, fmt.Sprint(s.Dump(t)), jobstest.Secret)
		before := s.Reload(t, job.ID)

		deleted, err := s.Deleter.Delete(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		_, err = s.Upkeep.DeleteObjects(t.Context())

		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(s.Dump(t)), jobstest.Secret)
		require.Empty(t, jobstest.Stored(t, s))
		require.Zero(t, s.Count(t, "artifacts")+s.Count(t, "uploads")+s.Count(t, "object_deletions"))
		prompts, err := s.Edges(t, job.ID).Prompts(t.Context())
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

		s, job := jobstest.SecretJob(t)
		s.Exec(t, "INSERT INTO job_inputs (job_id, run, ciphertext, wrapped_key) SELECT job_id, 2, ciphertext, wrapped_key FROM job_inputs")

		_, err := s.Deleter.Delete(t.Context(), s.Client, job.ID)

		require.NoError(t, err)
		var left int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM job_inputs WHERE wrapped_key IS NOT NULL OR ciphertext <> ''").Scan(t.Context(),
			&left))
		require.Zero(t, left)
		require.Equal(t, 2, s.Count(t, "job_inputs"))
	})

	t.Run("ReturnsTheSameJobAgain", func(t *testing.T) {
		t.Parallel()

		s, job := jobstest.SecretJob(t)
		first, err := s.Deleter.Delete(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		before := s.Dump(t)

		again, err := s.Deleter.Delete(t.Context(), s.Admin, job.ID)

		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("RefusesUnfinishedJobsAndJobsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()

		s, running, worker, _ := jobstest.Leased(t)
		waiting := s.Submit(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		before := s.Dump(t)

		for name, c := range map[string]struct {
			p    jobs.Principal
			id   models.JobID
			code apierror.Code
		}{
			"a running job":  {s.Client, running.ID, apierror.CodeConflict},
			"a waiting job":  {s.Client, waiting.ID, apierror.CodeConflict},
			"another's job":  {stranger, waiting.ID, apierror.CodeNotFound},
			"the worker":     {worker, running.ID, apierror.CodeNotFound},
			"an unknown job": {s.Client, models.NewJobID(), apierror.CodeNotFound},
			"a malformed id": {s.Admin, "job_1", apierror.CodeNotFound},
		} {
			_, err := s.Deleter.Delete(t.Context(), c.p, c.id)

			require.Error(t, err, name)
			jobstest.RequireCode(t, err, c.code)
		}
		require.Equal(t, before, s.Dump(t))
	})
}
