package operate_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// The text \u0000, six characters, is no NUL character, wherever it comes from and goes to.
func TestTextOfAnEscape(t *testing.T) {
	t.Parallel()

	const text = `a\u0000b\\u0000`
	s := jobstest.New(t)
	encoded, err := json.Marshal(map[string]any{text: []string{text}})
	require.NoError(t, err)
	job, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{
		Model: "testcard", Prompt: text, Metadata: encoded, Params: []byte(`{"durationSeconds": 1, "pace": 0}`), MaxAttempts: new(1),
	})
	require.NoError(t, err)
	user, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{
		Model: "testcard", Prompt: "{{" + string(job.ID) + ".output." + "said}} and " + text, DependsOn: []models.JobID{job.ID},
		Params: []byte(`{"durationSeconds": 1, "pace": 0}`),
	})
	require.NoError(t, err)
	worker := s.Worker(t, "one")
	_, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("the video"))
	output, err := json.Marshal(map[string]string{"said": text})
	require.NoError(t, err)
	_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Output: output})
	require.NoError(t, err)

	done := s.Reload(t, job.ID)
	prompts, err := s.Edges(t, job.ID, user.ID).Prompts(t.Context())
	require.NoError(t, err)
	prompt, err := inputs.FillPrompt(t.Context(), s.DB, user.ID, prompts[user.ID].Text)

	require.NoError(t, err)
	require.Equal(t, text, prompts[job.ID].Text)
	require.JSONEq(t, string(encoded), string(done.Metadata))
	require.JSONEq(t, string(output), string(done.Output))
	require.Equal(t, text+" and "+text, prompt)
	_, letter := dies(t, s, worker, models.FailUnauthorized, text)
	require.Equal(t, text, letter.Reason)
	s.RequireInvariants(t)
}
