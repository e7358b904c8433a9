package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

// hidden returns the fields that a page's form has set already.
func hidden(body string) url.Values {
	form := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		form.Add(field[1], strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#43;", "+").Replace(field[2]))
	}
	return form
}

// theBulk returns the only bulk operation.
func theBulk(t *testing.T, b *browser) *joblist.BulkOperation {
	t.Helper()
	var ids []models.BulkID
	require.NoError(t, b.DB.NewSelect().Table("bulk_operations").Column("id").Scan(t.Context(), &ids))
	require.Len(t, ids, 1)
	return jobstest.BulkOperation(t, b.Stack, ids[0])
}

func TestBulkNew(t *testing.T) {
	t.Parallel()

	t.Run("ActsOnTheSelectedJobsOnce", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		chosen, other, over := b.Submit(t), b.Submit(t), b.Submit(t)
		_, err := b.Canceller.Cancel(t.Context(), b.Client, over.ID)
		require.NoError(t, err)

		page := b.get(t, "/bulk/new?action=CANCEL&id="+chosen.ID.UUID()+"&id="+over.ID.UUID())
		require.Equal(t, http.StatusOK, page.Status)
		require.Contains(t, page.Body, "<h1>Cancel 1 job?</h1>")
		require.Contains(t, page.Body, "1 cancelled: they have ended already")
		form := hidden(page.Body)
		first := b.post(t, "/bulk/new", form)
		again := b.post(t, "/bulk/new", form)
		require.Equal(t, http.StatusSeeOther, first.Status, first.Body)
		require.Equal(t, first.Header.Get("Location"), again.Header.Get("Location"), "a second click starts nothing")

		op := theBulk(t, b)
		require.Equal(t, "/bulk/"+string(op.ID), first.Header.Get("Location"))
		require.Equal(t, 1, jobstest.FinishBulk(t, b.Stack, op.ID).Done)
		require.Equal(t, models.JobCancelled, b.Reload(t, chosen.ID).Status)
		require.Equal(t, models.JobQueued, b.Reload(t, other.ID).Status)
		shown := b.get(t, "/bulk/"+string(op.ID)).Body
		require.Contains(t, shown, "1 done, 0 failed, 0 left")
		require.Contains(t, shown, "2 jobs selected by hand")
		require.Contains(t, b.get(t, "/bulk").Body, "Cancel 1 job")
	})

	t.Run("ActsOnAllThatMatched", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		b.Submit(t)

		page := b.get(t, "/bulk/new?action=SET_TIER&all=1&q=model:testcard&range=1h")
		require.Contains(t, page.Body, "<h1>Set the tier of 2 jobs?</h1>")
		form := hidden(page.Body)
		require.Empty(t, form.Get("range"), "the time is fixed when the jobs are counted")
		require.NotEmpty(t, form.Get("to"))
		b.Submit(t)
		unset := b.post(t, "/bulk/new", form)
		require.Equal(t, http.StatusUnprocessableEntity, unset.Status)
		require.Contains(t, unset.Body, "SET_TIER needs the tier to set.")
		form.Set("newTier", "BATCH")
		form.Set("canary", "many")
		bad := b.post(t, "/bulk/new", form)
		require.Contains(t, bad.Body, "&#34;many&#34; is not a whole number.")
		require.Contains(t, bad.Body, `value="many"`, "what was typed stays")
		form.Set("canary", "1")
		require.Equal(t, http.StatusSeeOther, b.post(t, "/bulk/new", form).Status)

		op := theBulk(t, b)
		require.Equal(t, 2, op.Matched)
		require.Equal(t, 1, op.Canary)
		require.Contains(t, b.get(t, "/bulk/"+string(op.ID)).Body, "Canary: the first 1 go first.")
	})

	t.Run("SetsAPriority", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		page := b.get(t, "/bulk/new?action=SET_PRIORITY&id="+job.ID.UUID())
		require.Contains(t, page.Body, "<h1>Set the priority of 1 job?</h1>")
		form := hidden(page.Body)
		for typed, says := range map[string]string{"": "SET_PRIORITY needs the priority", "<b>": "&#34;&lt;b&gt;&#34; is not a whole number",
			"101": "from -100 to 100"} {
			form.Set("newPriority", typed)
			refused := b.post(t, "/bulk/new", form)
			require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
			require.Contains(t, refused.Body, says)
		}
		form.Set("newPriority", "-7")
		require.Equal(t, http.StatusSeeOther, b.post(t, "/bulk/new", form).Status)
		op := theBulk(t, b)
		require.Contains(t, b.get(t, "/bulk/"+string(op.ID)).Body, "Set the priority of 1 job to -7")
	})

	t.Run("RefusesWhatItCannotDo", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		for query, says := range map[string]string{
			"action=CANCEL":                      "Select jobs in the list first",
			"action=EXPLODE&all=1":               "Choose what to do with the jobs.",
			"action=CANCEL&id=%27":               "is not the id of a job",
			"action=CANCEL&all=1&q=foo:bar":      "there is no key",
			"action=CANCEL&all=1&status=broken":  "There is no status",
			"action=RETRY&all=1":                 "No job is in a state for this.",
			"action=CANCEL&all=1&q=%3Cscript%3E": "No job is in a state for this.",
		} {
			got := b.get(t, "/bulk/new?"+query)
			require.Contains(t, got.Body, says, query)
			require.NotContains(t, got.Body, "<script>", query)
			require.NotContains(t, got.Body, `type="submit" class="primary`, query)
		}
	})
}

func TestBulkShow(t *testing.T) {
	t.Parallel()

	t.Run("PausesResumesAndCancels", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		for range 3 {
			b.Submit(t)
		}
		require.Equal(t, http.StatusSeeOther, b.post(t, "/bulk/new", hidden(b.get(t, "/bulk/new?action=CANCEL&all=1").Body)).Status)
		page := "/bulk/" + string(theBulk(t, b).ID)

		for _, step := range []struct{ verb, badge, told string }{
			{"pause", "paused", "Paused after"}, {"resume", "running", "Resumed."}, {"cancel", "cancelled", "Cancelled after"},
			{"pause", "cancelled", "already finished"},
		} {
			got := b.post(t, page+"/"+step.verb, nil)
			require.Equal(t, page, got.Header.Get("Location"), step.verb)
			shown := b.get(t, page).Body
			require.Contains(t, shown, `<span class="badge is-`+step.badge+`">`, step.verb)
			require.Contains(t, shown, step.told, step.verb)
		}
		require.Equal(t, http.StatusNotFound, b.get(t, "/bulk/bulk_x").Status)
	})

	t.Run("SaysWhyJobsWereLeftUnchanged", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		require.Equal(t, http.StatusSeeOther, b.post(t, "/bulk/new", hidden(b.get(t, "/bulk/new?action=CANCEL&all=1").Body)).Status)
		op := theBulk(t, b)
		worker := b.Worker(t, "one")
		_, fence := b.Lease(t, worker)
		_, err := b.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no"})
		require.NoError(t, err)

		jobstest.FinishBulk(t, b.Stack, op.ID)

		got := b.get(t, "/bulk/"+string(op.ID)).Body
		require.Contains(t, got, "Left unchanged: the job&#39;s state had changed")
		require.Contains(t, got, "it is too late to cancel it")
		require.Contains(t, got, `href="/jobs/`+string(job.ID)+`"`)
	})
}

func TestJobExport(t *testing.T) {
	t.Parallel()

	t.Run("SendsWhatMatchesAndNoFormulas", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		_, _, err := b.Submitter.Submit(t.Context(), b.Client, submit.Submission{Model: "testcard", Prompt: "a secret place",
			UserID: `=cmd|' /C calc'!A1`, IdempotencyKey: new("-1+2, \"x\"")})
		require.NoError(t, err)
		cancelled := b.Submit(t)
		_, err = b.Canceller.Cancel(t.Context(), b.Client, cancelled.ID)
		require.NoError(t, err)

		table := b.get(t, "/jobs/export.csv?status=queued")
		lines := b.get(t, "/jobs/export.jsonl")

		require.Equal(t, `attachment; filename="jobs.csv"`, table.Header.Get("Content-Disposition"))
		require.Equal(t, 2, strings.Count(table.Body, "\n"), table.Body)
		require.Contains(t, table.Body, `'=cmd|' /C calc'!A1`)
		require.Contains(t, table.Body, `"'-1+2, ""x"""`)
		require.NotContains(t, table.Body, string(cancelled.ID))
		require.Equal(t, 2, strings.Count(lines.Body, "\n"))
		require.Contains(t, lines.Body, `"userId":"=cmd|' /C calc'!A1"`)
		require.NotContains(t, lines.Body+table.Body, "a secret place")
		require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/jobs/export.csv?q=foo:bar").Status)
	})
}
