package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// failed is a job that failed for good.
func (b *browser) failed(t *testing.T, reason string) *models.Job {
	t.Helper()
	job := b.Submit(t)
	worker := b.Worker(t, "failing")
	_, fence := b.Lease(t, worker)
	_, err := b.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: reason})
	require.NoError(t, err)
	return b.Reload(t, job.ID)
}

func TestJobAction(t *testing.T) {
	t.Parallel()

	t.Run("CancelsWithAReason", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		path := "/jobs/" + string(job.ID)
		require.Contains(t, b.get(t, path+"/cancel").Body, "Cancel this job?")
		bad := b.post(t, path+"/cancel", url.Values{"reason": {"two\nlines"}})
		require.Equal(t, http.StatusUnprocessableEntity, bad.Status)
		require.Contains(t, bad.Body, `id="reason-error"`)

		got := b.post(t, path+"/cancel", url.Values{"reason": {"a <script> by mistake"}})

		require.Equal(t, path, got.Header.Get("Location"))
		page := b.get(t, path).Body
		require.Contains(t, page, "a &lt;script&gt; by mistake")
		require.Equal(t, http.StatusSeeOther, b.get(t, path+"/cancel").Status, "a page of an action that is over leads back")
	})

	t.Run("RetriesOnceHoweverOftenTheFormIsSent", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.failed(t, "no such style")
		path := "/jobs/" + string(job.ID)
		require.Contains(t, b.get(t, path+"/retry").Body, "from scratch")
		form := url.Values{"run": {"1"}, "from": {"scratch"}}

		for range 2 {
			require.Equal(t, path, b.post(t, path+"/retry", form).Header.Get("Location"))
		}

		require.Equal(t, 2, b.Reload(t, job.ID).Run)
	})

	t.Run("RedrivesWithEdits", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.failed(t, "a <face>")
		path := "/jobs/" + string(job.ID)
		letter, err := b.Reads.DeadLetters.OpenOf(t.Context(), b.Admin, job)
		require.NoError(t, err)
		page := b.get(t, path+"/redrive").Body
		require.Contains(t, page, "a &lt;face&gt;")
		require.Contains(t, page, "a lighthouse in the fog</textarea>")
		form := url.Values{"letter": {string(letter.ID)}, "prompt": {"a lighthouse\r\nat noon"}, "params.fps": {"x"}}
		refused := b.post(t, path+"/redrive", form)
		require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
		require.Contains(t, refused.Body, `id="params.fps-error"`)
		require.Contains(t, refused.Body, "at noon</textarea>", "what was typed stays")

		form.Set("params.fps", "12")
		for range 2 {
			require.Equal(t, path, b.post(t, path+"/redrive", form).Header.Get("Location"), "a second click opens no other run")
		}

		redriven := b.Reload(t, job.ID)
		require.Equal(t, 2, redriven.Run)
		require.JSONEq(t, "12", string(paramOf(t, redriven, "fps")))
		prompts, err := b.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a lighthouse\nat noon", prompts[job.ID].Text)
		require.Contains(t, b.get(t, path).Body, "since it was redriven")
	})

	t.Run("ChangesTierAndPriority", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		path := "/jobs/" + string(job.ID)

		require.Equal(t, path, b.post(t, path+"/order", url.Values{"tier": {"BATCH"}, "priority": {"-7"}}).Header.Get("Location"))

		set := b.Reload(t, job.ID)
		require.Equal(t, []any{models.TierBatch, -7}, []any{set.Tier, set.Priority})
		bad := b.post(t, path+"/order", url.Values{"tier": {"BATCH"}, "priority": {"1000"}})
		require.Equal(t, http.StatusUnprocessableEntity, bad.Status)
		require.Contains(t, bad.Body, "priority must be from -100 to 100.")
	})

	t.Run("DeletesAfterAQuestion", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.failed(t, "no such style")
		path := "/jobs/" + string(job.ID)
		require.Contains(t, b.get(t, path+"/delete").Body, "cannot be restored")

		for range 2 {
			require.Equal(t, path, b.post(t, path+"/delete", nil).Header.Get("Location"))
		}

		page := b.get(t, path).Body
		require.Contains(t, page, "Deleted job")
		require.NotContains(t, page, "no such style")
		require.NotContains(t, page, "/retry")
	})
}

func paramOf(t *testing.T, job *models.Job, name string) json.RawMessage {
	t.Helper()
	var params map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(job.Params, &params))
	return params[name]
}
