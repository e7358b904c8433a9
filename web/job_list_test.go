package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJobList(t *testing.T) {
	t.Parallel()

	t.Run("ShowsPromptsAsTextOnly", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, jobs.Submission{Model: "testcard", Prompt: `<script>alert(1)</script>" onload="x`})
		require.NoError(t, err)

		for _, path := range []string{"/jobs", "/jobs/" + string(job.ID)} {
			got := b.get(t, path)
			require.Equal(t, http.StatusOK, got.Status)
			require.NotContains(t, got.Body, "<script>alert", path)
			require.NotContains(t, got.Body, `" onload="`, path)
			require.Contains(t, got.Body, "&lt;script&gt;alert(1)", path)
		}
	})

	t.Run("ShowsPromptsInTheOrderTheyHave", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		const marks = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
		prompt := "a " + marks + " cat, שלום"
		style, err := json.Marshal(map[string]string{"style": "noir" + marks})
		require.NoError(t, err)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, jobs.Submission{Model: "testcard", Prompt: prompt, Params: style})
		require.NoError(t, err)

		for _, path := range []string{"/jobs", "/jobs/" + string(job.ID)} {
			got := b.get(t, path)
			require.Contains(t, got.Body, "[U+202E]", path)
			require.Contains(t, got.Body, "שלום", path)
			require.False(t, strings.ContainsAny(got.Body, marks), path)
		}
		prompts, err := b.Reader.Prompts(t.Context(), []models.JobID{job.ID})
		require.NoError(t, err)
		require.Equal(t, prompt, prompts[job.ID].Text, "it is kept as it came")
	})

	t.Run("NarrowsByWhatTheAddressSays", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		waiting, cancelled := b.Submit(t), b.Submit(t)
		_, err := b.Canceller.Cancel(t.Context(), b.Admin, cancelled.ID)
		require.NoError(t, err)

		got := b.get(t, "/jobs?status=SCHEDULED,QUEUED&tier=ENTERPRISE&model=testcard")

		require.Contains(t, got.Body, string(waiting.ID))
		require.NotContains(t, got.Body, string(cancelled.ID))
		require.Contains(t, got.Body, `hx-sse:connect="/jobs/live?model=testcard&amp;status=SCHEDULED%2CQUEUED&amp;tier=ENTERPRISE"`)
		for _, path := range []string{"/jobs?status=DONE", "/jobs?tier=GOLD", "/jobs?model=%00", "/jobs?after=x"} {
			require.Equal(t, http.StatusUnprocessableEntity, b.get(t, path).Status, path)
		}
	})

	t.Run("CountsTheStates", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		b.Submit(t)

		got := b.get(t, "/jobs")

		require.Regexp(t, `(?s)Waiting <span class="count">2</span>.*Running <span class="count">0</span>`, got.Body)
	})

	t.Run("LeadsToOlderJobs", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		first := b.Submit(t)
		for range jobListSize {
			b.Submit(t)
		}

		newest := b.get(t, "/jobs?status=QUEUED")
		require.NotContains(t, newest.Body, string(first.ID))
		older := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(newest.Body)
		require.NotNil(t, older)
		got := b.get(t, strings.ReplaceAll(older[1], "&amp;", "&"))

		require.Equal(t, 1, strings.Count(got.Body, `class="main-link"`))
		require.Contains(t, got.Body, string(first.ID))
		require.NotContains(t, got.Body, "hx-sse", "an older page does not move")
	})

	t.Run("FindsAJobByItsID", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)

		require.Equal(t, "/jobs/"+string(job.ID), b.get(t, "/jobs?q="+url.QueryEscape(" "+string(job.ID))).Header.Get("Location"))
		require.Empty(t, b.get(t, "/jobs?q="+url.QueryEscape(" //evil.example")).Header.Get("Location"))
	})

	t.Run("SearchesInTheAPIsLanguage", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)

		found := b.get(t, "/jobs?q=status%3Aqueued+"+job.ID.UUID()[:13])
		require.Contains(t, found.Body, string(job.ID))
		require.Contains(t, found.Body, `value="status:queued `+job.ID.UUID()[:13]+`"`)
		require.Contains(t, found.Body, `href="/jobs?q=status%3Aqueued+`+job.ID.UUID()[:13]+`&amp;status=FAILED"`)
		require.NotContains(t, b.get(t, "/jobs?q=-status%3Aqueued").Body, string(job.ID))
		refused := b.get(t, "/jobs?q=stat%3Ax")
		require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
		require.Contains(t, refused.Body, "there is no key")
	})
}

func TestJobListLive(t *testing.T) {
	t.Parallel()

	t.Run("ShowsANewJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		events := b.stream(t, "/jobs/live", "")
		require.Contains(t, <-events, "No job is like that")

		job := b.Submit(t)

		require.Contains(t, <-events, string(job.ID))
	})
}

func TestJobQuery(t *testing.T) {
	t.Parallel()

	t.Run("HasOneAddress", func(t *testing.T) {
		t.Parallel()

		q := jobQuery{Status: []models.JobStatus{models.JobQueued}, Model: "a&b", After: "x"}

		require.Equal(t, "/jobs?after=x&model=a%26b&status=QUEUED", q.path("/jobs"))
		require.Empty(t, q.live())
		require.Equal(t, "/jobs/live", jobQuery{}.live())
	})
}
