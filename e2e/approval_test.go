package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// approvalFilm submits a film of the take that is picked of two; more are params of the approval.
func approvalFilm(t *testing.T, c *client.Client, more string) *client.Workflow {
	t.Helper()
	node := func(key, model, prompt, params string) client.WorkflowJobInput {
		job := client.SubmitJobInput{Model: model, Params: new(json.RawMessage(params))}
		if prompt != "" {
			job.Prompt = &prompt
		}
		return client.WorkflowJobInput{Key: key, Job: job}
	}
	w, err := c.SubmitWorkflow(t.Context(), client.SubmitWorkflowInput{Name: "picked", Output: new("film"), Jobs: []client.WorkflowJobInput{
		node("a", "testcard", "fog", `{"durationSeconds": 1, "pace": 0, "seed": 1}`),
		node("b", "testcard", "fog", `{"durationSeconds": 1, "pace": 0, "seed": 2}`),
		node("pick", "workflow.approval", "", `{"candidates": ["{{a.video}}", "{{b.video}}"]`+more+`}`),
		node("film", "video.stitch", "", `{"clips": ["{{pick.video}}"]}`),
	}})
	require.NoError(t, err)
	return w
}

func TestApproval(t *testing.T) {
	t.Parallel()

	completes := func(t *testing.T, c *client.Client, w *client.Workflow) {
		t.Helper()
		testrun.Eventually(t, "the film is joined", func() bool {
			now, err := c.Workflow(t.Context(), w.Id)
			require.NoError(t, err)
			require.NotEqual(t, client.WorkflowStatusFailed, now.Status)
			return now.Status == client.WorkflowStatusCompleted
		})
	}

	t.Run("UsesTheTakeThatALinkPicks", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)
		w := approvalFilm(t, c, "")
		var link string
		testrun.Eventually(t, "the approval waits for an answer", func() bool {
			now, err := c.WorkflowDetail(t.Context(), w.Id)
			require.NoError(t, err)
			for _, n := range now.Jobs {
				if n.Approval != nil && n.Approval.Url != nil {
					link = *n.Approval.Url
				}
			}
			return link != ""
		})
		page, err := http.Get(link)
		require.NoError(t, err)
		text, err := io.ReadAll(page.Body)
		page.Body.Close()
		require.NoError(t, err)
		require.Contains(t, string(text), "Candidate b")
		answered, err := http.PostForm(link, url.Values{"pick": {"b"}})
		require.NoError(t, err)
		answered.Body.Close()
		require.Equal(t, http.StatusOK, answered.StatusCode)
		again, err := http.PostForm(link, url.Values{"reject": {"1"}})
		require.NoError(t, err)
		again.Body.Close()
		require.Equal(t, http.StatusConflict, again.StatusCode)
		completes(t, c, w)
	})

	t.Run("UsesTheFirstTakeWithoutAnAnswer", func(t *testing.T) {
		t.Parallel()
		c := common(t).client(t)
		completes(t, c, approvalFilm(t, c, `, "waitSeconds": 1, "onTimeout": "first"`))
	})
}

func TestPickOfADraft(t *testing.T) {
	t.Parallel()

	c := common(t).client(t)
	draft := func(key string, seed string) client.WorkflowJobInput {
		return client.WorkflowJobInput{Key: key, Job: client.SubmitJobInput{
			Model: "testcard", Prompt: new("fog"), Params: new(json.RawMessage(`{"durationSeconds": 1, "pace": 0, "seed": ` + seed + `}`)),
			Draft: &client.DraftInput{Steps: 6},
		}}
	}
	w, err := c.SubmitWorkflow(t.Context(), client.SubmitWorkflowInput{Name: "picked", Output: new("film"), Jobs: []client.WorkflowJobInput{
		draft("a", "1"), draft("b", "2"),
		{Key: "pick", Job: client.SubmitJobInput{
			Model: "workflow.approval", Params: new(json.RawMessage(`{"candidates": ["{{a.draft}}", "{{b.draft}}"]}`)),
		}},
		{Key: "full", Continues: new("pick"), Job: client.SubmitJobInput{Model: "testcard"}},
		{Key: "film", Job: client.SubmitJobInput{Model: "video.stitch", Params: new(json.RawMessage(`{"clips": ["{{full.video}}"]}`))}},
	}})
	require.NoError(t, err)
	nodes := func() map[string]client.WorkflowNode {
		now, err := c.WorkflowDetail(t.Context(), w.Id)
		require.NoError(t, err)
		found := map[string]client.WorkflowNode{}
		for _, n := range now.Jobs {
			found[n.Key] = n
		}
		return found
	}
	testrun.Eventually(t, "the approval waits for an answer", func() bool {
		a := nodes()["pick"].Approval
		return a != nil && a.Url != nil
	})
	_, err = c.ApproveWorkflowJob(t.Context(), w.Id, "pick", "b", "")
	require.NoError(t, err)
	testrun.Eventually(t, "the film is joined", func() bool {
		now, err := c.Workflow(t.Context(), w.Id)
		require.NoError(t, err)
		require.NotEqual(t, client.WorkflowStatusFailed, now.Status)
		return now.Status == client.WorkflowStatusCompleted
	})
	require.JSONEq(t, `{"durationSeconds": 1, "pace": 0, "seed": 2}`,
		paramsOf(t, nodes()["full"].Job.Params, "durationSeconds", "pace", "seed"))
}

// paramsOf returns some of the params of a job.
func paramsOf(t *testing.T, params json.RawMessage, names ...string) string {
	t.Helper()
	var all map[string]any
	require.NoError(t, json.Unmarshal(params, &all))
	some := map[string]any{}
	for _, name := range names {
		some[name] = all[name]
	}
	text, err := json.Marshal(some)
	require.NoError(t, err)
	return string(text)
}
