package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

func TestJobList(t *testing.T) {
	t.Parallel()

	t.Run("ShowsPromptsAsTextOnly", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client,
			submit.Submission{Model: "testcard", Prompt: `<script>alert(1)</script>" onload="x`})
		require.NoError(t, err)

		for _, path := range []string{"/jobs", "/jobs/" + string(job.ID)} {
			got := b.get(t, path)
			require.Equal(t, http.StatusOK, got.Status)
			require.NotContains(t, got.Body, "<script>alert", path)
			require.NotContains(t, got.Body, `" onload="`, path)
			require.Contains(t, got.Body, "&lt;script&gt;alert(1)", path)
		}
	})

	t.Run("ShowsThePreviewOfAnUnfinishedVideo", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		worker := b.Worker(t, "one")
		granted, fence := b.Lease(t, worker)
		require.NotContains(t, b.get(t, "/jobs").Body, `class="peek"`)
		object := b.Upload(t, worker, fence, models.ArtifactPreview, []byte("a picture"))
		_, err := b.Attempts.CommitArtifact(t.Context(), worker, fence, models.ArtifactPreview, object)
		require.NoError(t, err)
		picture := `class="peek" src="/artifacts/` + string(b.Reload(t, granted.Job.ID).PreviewID)

		require.Contains(t, b.get(t, "/jobs").Body, picture)

		_, err = b.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no such style"})
		require.NoError(t, err)
		require.NotContains(t, b.get(t, "/jobs").Body, picture)
	})

	t.Run("ShowsPromptsInTheOrderTheyHave", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		const marks = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
		prompt := "a " + marks + " cat, שלום"
		style, err := json.Marshal(map[string]string{"style": "noir" + marks})
		require.NoError(t, err)
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, submit.Submission{Model: "testcard", Prompt: prompt, Params: style})
		require.NoError(t, err)

		for _, path := range []string{"/jobs", "/jobs/" + string(job.ID)} {
			got := b.get(t, path)
			require.Contains(t, got.Body, "[U+202E]", path)
			require.Contains(t, got.Body, "שלום", path)
			require.False(t, strings.ContainsAny(got.Body, marks), path)
		}
		prompts, err := b.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, prompt, prompts[job.ID].Text, "it is kept as it came")
	})

	t.Run("NarrowsByWhatTheAddressSays", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		waiting, cancelled := b.Submit(t), b.Submit(t)
		_, err := b.Canceller.Cancel(t.Context(), b.Admin, cancelled.ID)
		require.NoError(t, err)

		got := b.get(t, "/jobs?status=scheduled,+QUEUED&q=tier:enterprise+model:testcard")

		require.Contains(t, got.Body, string(waiting.ID))
		require.NotContains(t, got.Body, string(cancelled.ID))
		require.Contains(t, got.Body, `hx-sse:connect="/jobs/live?q=tier%3Aenterprise+model%3Atestcard&amp;status=SCHEDULED%2CQUEUED"`)
		older := b.get(t, "/jobs?model=testcard&tier=PRO&q=&status=QUEUED")
		require.Equal(t, http.StatusSeeOther, older.Status)
		require.Equal(t, "/jobs?q=model%3Atestcard+tier%3APRO&status=QUEUED", older.Header.Get("Location"),
			"older addresses lead to the language")
		require.Equal(t, "/jobs", b.get(t, "/jobs?q=&size=&sort=&from=&to=").Header.Get("Location"), "forms leave no empty parameters behind")
	})

	t.Run("SaysUnderTheFiltersWhatIsWrongWithThem", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		for path, problem := range map[string]string{
			"/jobs?q=kept&status=DONE":           `There is no status &#34;DONE&#34;. Choose scheduled, blocked,`,
			"/jobs?q=kept&range=2y":              `There is no range &#34;2y&#34;.`,
			"/jobs?q=kept&from=soon":             "from must be a time in UTC",
			"/jobs?q=kept&sort=size":             `There is no order &#34;size&#34;.`,
			"/jobs?q=status:queued+foo:bar+kept": `<code class="query">status:queued <mark>foo:bar</mark> kept</code>`,
			"/jobs?q=status:nope+kept":           `<code class="query"><mark>status:nope</mark> kept</code>`,
			"/jobs?q=kept&after=x":               "This page of the list no longer exists.",
			"/jobs?q=kept+%22%3Cscript%3E":       "the quotation mark is not closed",
		} {
			got := b.get(t, path)
			require.Equal(t, http.StatusUnprocessableEntity, got.Status, path)
			require.Contains(t, got.Body, problem, path)
			require.Regexp(t, `<input type="search" name="q" id="job-search" value="[^"]*kept[^"]*"`, got.Body, path)
			require.NotContains(t, got.Body, "pageInfo", path)
			require.NotContains(t, got.Body, "<script>", path)
		}
		require.Contains(t, b.get(t, "/jobs?q=status:nope").Body, `aria-invalid="true"`)
		stale := b.get(t, "/workers?all=1&after=x")
		require.Equal(t, http.StatusUnprocessableEntity, stale.Status)
		require.Contains(t, stale.Body, `href="/workers?state=all">Newest</a>`)
	})

	t.Run("GreetsWhileThereIsNoJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		got := b.get(t, "/jobs").Body
		require.Contains(t, got, `<a class="button primary" href="/jobs/new">Submit the first job</a>`)
		require.Contains(t, got, "REELAY_ENDPOINT="+b.url+" ")
		require.Contains(t, got, "curl "+b.url+"/api/video-generations")
		require.NotContains(t, got, "Clear filters")

		got = b.get(t, "/jobs?q=nothing").Body
		require.Contains(t, got, "No jobs match these filters.")
		require.Contains(t, got, `<a class="inline" href="/jobs">Clear filters</a>`)
		require.NotContains(t, got, "REELAY_ENDPOINT")
	})

	t.Run("SaysThatPromptsAreNotSearched", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)

		const note = "Prompts are encrypted and cannot be searched."
		require.Contains(t, b.get(t, "/jobs?q=lighthouse").Body,
			"No jobs match these filters. Words match ids, idempotency keys and metadata values. "+note)
		require.NotContains(t, b.get(t, "/jobs?q=status:failed").Body, note)
	})

	t.Run("MarksADeletedJob", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		_, err := b.Canceller.Cancel(t.Context(), b.Client, job.ID)
		require.NoError(t, err)
		_, err = b.Deleter.Delete(t.Context(), b.Client, job.ID)
		require.NoError(t, err)

		for _, path := range []string{"/jobs", "/jobs/" + string(job.ID)} {
			got := b.get(t, path).Body
			require.Contains(t, got, `<span class="badge is-deleted">deleted</span>`, path)
			require.NotContains(t, got, "no prompt", path)
		}
	})

	t.Run("CountsTheStates", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		b.Submit(t)

		got := b.get(t, "/jobs")

		require.Regexp(t, `(?s)All\s*<span class="count">2</span>.*queued\s*<span class="count">2</span>.*running\s*<span class="count">0</span>`,
			got.Body)
	})

	t.Run("LeadsToOlderJobs", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		first := b.Submit(t)
		for range address.JobsOnPage {
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
		require.Contains(t, <-events, "There are no jobs yet.")

		job := b.Submit(t)

		require.Contains(t, <-events, string(job.ID))
	})

	t.Run("SendsNothingWhileOnlyTimePasses", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		messages := b.messages(t, "/jobs/live", "")
		require.Contains(t, <-messages, "just now")

		require.Equal(t, beatMessage, <-messages, "the page itself keeps its times current")
	})
}

func TestSearchSuggest(t *testing.T) {
	t.Parallel()

	t.Run("CompletesKeysAndValues", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.pool(t, "l4 spot", nil)
		worker := b.Worker(t, "one").WorkerID
		for term, want := range map[string]string{
			"sta":                    `"text":"status:"`,
			"-t":                     `"text":"-tier:"`,
			"status:failed,q":        `"text":"status:failed,queued"`,
			"model:test":             `"text":"model:testcard"`,
			"class:oom":              `[]`,
			"pool:":                  `"text":"pool:\"l4 spot\""`,
			"worker:":                `"text":"worker:` + string(worker) + `"`,
			"-age":                   `[]`,
			strings.Repeat("x", 201): `[]`,
			"<script>:":              `[]`,
		} {
			got := b.get(t, "/jobs/suggest?term="+url.QueryEscape(term))
			require.Equal(t, http.StatusOK, got.Status, term)
			require.Contains(t, got.Body, want, term)
		}
	})

	t.Run("LeavesALongFilterInTheField", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		got := b.get(t, "/jobs?q="+strings.Repeat("kept+", 2000))
		require.Equal(t, http.StatusUnprocessableEntity, got.Status)
		require.Contains(t, got.Body, "A search can have at most 500 characters; this one has 9999.")
		require.Contains(t, got.Body, `value="kept kept`)
	})
}
