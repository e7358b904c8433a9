package jobstest

import (
	"testing"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// AskApproval submits a workflow of the takes a and b, the approval pick of one of them, and a film of
// that one. It renders the takes, so that pick waits for an answer.
func (s *Stack) AskApproval(t testing.TB, p jobs.Principal) *models.Workflow {
	t.Helper()
	node := func(key, model, prompt, params string) workflow.Node {
		return workflow.Node{Key: key, Job: submit.Submission{Model: model, Prompt: prompt, Params: []byte(params)}}
	}
	w, _, err := s.Workflows.Submit(t.Context(), p, workflow.Input{Name: "film", Output: "film", Jobs: []workflow.Node{
		node("a", "testcard", "fog", `{"durationSeconds": 1, "pace": 0}`), node("b", "testcard", "fog", `{"durationSeconds": 1, "pace": 0, "seed": 2}`),
		node("pick", models.TypeApproval, "", `{"candidates": ["{{a.video}}", "{{b.video}}"], "question": "Which fog?"}`),
		node("film", "video.stitch", "", `{"clips": ["{{pick.video}}"]}`),
	}})
	require.NoError(t, err)
	worker := s.Worker(t, "renderer of takes")
	for range 2 {
		_, fence := s.Lease(t, worker)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
	}
	asked, err := s.Workflows.Approvals(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	return w
}

// AskPick submits a workflow of the drafts a and b, the approval pick of one of them, and its video. It
// renders the drafts, so that pick waits for an answer.
func (s *Stack) AskPick(t *testing.T, p jobs.Principal) *models.Workflow {
	t.Helper()
	draft := func(key string) workflow.Node {
		return workflow.Node{Key: key, Job: submit.Submission{
			Model: "testcard", Prompt: "fog", Params: []byte(`{"durationSeconds": 1, "pace": 0}`), Draft: &submit.Draft{Steps: 6},
		}}
	}
	w, _, err := s.Workflows.Submit(t.Context(), p, workflow.Input{Name: "picked", Output: "full", Jobs: []workflow.Node{
		draft("a"), draft("b"),
		{Key: "pick", Job: submit.Submission{Model: models.TypeApproval, Params: []byte(`{"candidates": ["{{a.draft}}", "{{b.draft}}"]}`)}},
		{Key: "full", Continues: "pick", Job: submit.Submission{Model: "testcard"}},
	}})
	require.NoError(t, err)
	nodes, err := models.ListWorkflowNodes(t.Context(), s.DB, w.ID)
	require.NoError(t, err)
	worker := s.Worker(t, "renderer of drafts")
	for _, n := range nodes[:2] {
		FinishDraft(t, s, worker, s.Reload(t, n.JobID))
	}
	asked, err := s.Workflows.Approvals(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	return w
}
