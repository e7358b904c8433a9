package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

const hostile = `<script>alert("x")</script>` + "\u202e"

// dies makes a job fail for good on a worker, with a log. It returns the dead letter.
func (b *browser) dies(t *testing.T, worker jobs.Principal, class models.FailureClass, reason, log string) *models.DeadLetter {
	t.Helper()
	b.Submit(t)
	granted, fence := b.Lease(t, worker)
	failure := lease.Failure{Class: class, Message: reason}
	if log != "" {
		failure.Log = new(b.Upload(t, worker, fence, models.ArtifactLog, []byte(log)))
	}
	_, err := b.Attempts.Fail(t.Context(), worker, fence, failure)
	require.NoError(t, err)
	letter, err := models.FindDeadLetter(t.Context(), b.DB, granted.Job.ID, granted.Job.Run)
	require.NoError(t, err)
	return letter
}

func (b *browser) deadLetter(t *testing.T, id models.DeadLetterID) *models.DeadLetter {
	t.Helper()
	found, err := b.Reads.DeadLetters.Get(t.Context(), b.Admin, id)
	require.NoError(t, err)
	return found
}

func TestDeadLetterList(t *testing.T) {
	t.Parallel()

	b := operator(t)
	require.Contains(t, b.get(t, "/dead-letters").Body, "No dead letters.")
	worker := b.Worker(t, "host-<b>7")
	first := b.dies(t, worker, models.FailUnauthorized, "the key 17 is refused "+hostile, "")
	b.dies(t, worker, models.FailUnauthorized, "the key 18 is refused "+hostile, "")
	last := b.dies(t, worker, models.FailUnauthorized, "the key 19 is refused "+hostile, "")
	b.dies(t, worker, models.FailInvalidInput, "the customer's own", "")

	got := b.get(t, "/dead-letters").Body

	require.Equal(t, first.Fingerprint, last.Fingerprint)
	require.Regexp(t, `(?s)aria-current="page">Operators must act <span class="count">3</span>.*Caused by customers, and cascades <span class="count">1</span>`, got)
	require.Regexp(t, `(?s)<tr id="cause-`+last.Fingerprint+
		`"><td class="num" data-label="Jobs"><strong>3</strong>.*?the key 19 is refused &lt;script&gt;.*?unauthorized.*?host-&lt;b&gt;7</a>.*?one host`, got)
	require.NotContains(t, got, "the customer&#39;s own", "an operator need not act")
	require.NotContains(t, got, "<script>alert")
	require.Contains(t, b.get(t, "/dead-letters?audience=customer").Body, "the customer&#39;s own")
	require.NotContains(t, b.get(t, "/dead-letters?resolved=1").Body, "cause-")
}

func TestDeadLetterGroup(t *testing.T) {
	t.Parallel()

	t.Run("ShowsJobsHostsAndASampleLog", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		one, two := b.Worker(t, "host-one"), b.Worker(t, "host-two")
		b.dies(t, one, models.FailUnauthorized, "key 1 is refused", "old")
		b.dies(t, one, models.FailUnauthorized, "key 2 is refused", "older")
		long := strings.Repeat("a line before\n", 2000)
		letter := b.dies(t, two, models.FailUnauthorized, "key 3 is refused", long+"\x1b[31m<b>red\x1b[0m\u202e\n10 %\r90 %\rlast words\n")

		got := b.get(t, address.Cause("", letter.Fingerprint, false)).Body

		require.Regexp(t, `(?s)<strong>3</strong> open`, got)
		require.Contains(t, got, `href="/jobs/`+string(letter.JobID)+`"`)
		require.Regexp(t, `(?s)host-one</a>.*?<td class="num">2</td>.*?host-two</a>.*?<td class="num">1</td>`, got)
		require.Contains(t, got, "<li>&lt;b&gt;red[U+202E]</li><li>last words</li>")
		require.Equal(t, 40, strings.Count(got[strings.Index(got, `class="log-tail"`):], "<li>"), "no more lines than these are shown")
		require.Contains(t, got, `/artifacts/`+string(letter.LogID))
		require.Contains(t, got, "The provider refused its credentials.")
		require.Equal(t, http.StatusNotFound, b.get(t, address.Cause("", "0000000000000000", false)).Status)
	})

	t.Run("RedrivesACanaryFirst", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		worker := b.Worker(t, "one")
		letter := b.dies(t, worker, models.FailUnauthorized, "key 1 is refused", "")
		b.dies(t, worker, models.FailUnauthorized, "key 2 is refused", "")
		path := address.Cause("/redrive", letter.Fingerprint, false)
		form := url.Values{"canary": {"1"}, "perMinute": {"600"}, "limit": {"2"}}

		require.Contains(t, b.get(t, path).Body, "Redrive 2 jobs?")
		for field, value := range map[string]string{"canary": "many", "perMinute": "0", "limit": "0"} {
			bad := url.Values{"canary": {"1"}, "perMinute": {"600"}, "limit": {"2"}}
			bad.Set(field, value)
			got := b.post(t, path, bad)
			require.Equal(t, http.StatusUnprocessableEntity, got.Status)
			require.Contains(t, got.Body, `id="`+field+`-error"`)
		}
		for range 2 { // a double click starts one operation
			got := b.post(t, path, form)
			require.Equal(t, address.Cause("", letter.Fingerprint, false), got.Header.Get("Location"), got.Body)
		}

		require.Equal(t, 1, b.Count(t, "bulk_operations"))
		require.Contains(t, b.get(t, address.Cause("", letter.Fingerprint, false)).Body, "Redrive of 2 jobs: 0 done, 0 failed.")
		_, err := b.Bulk.Pass(t.Context())
		require.NoError(t, err)
		require.Equal(t, models.ResolvedRedriven, b.deadLetter(t, letter.ID).Resolution, "the oldest is the canary")
		require.Regexp(t, `<strong>1</strong> open`, b.get(t, address.Cause("", letter.Fingerprint, false)).Body)
	})

	t.Run("DiscardsAllWithANote", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		worker := b.Worker(t, "one")
		letter := b.dies(t, worker, models.FailUnauthorized, "key 1 is refused", "")
		b.dies(t, worker, models.FailUnauthorized, "key 2 is refused", "")
		other := b.dies(t, worker, models.FailUnauthorized, "no such door", "")
		path := address.Cause("/discard", letter.Fingerprint, false)

		require.Contains(t, b.get(t, path).Body, "Discard 2 dead letters?")
		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, path, url.Values{"note": {strings.Repeat("x", 1001)}}).Status)
		for range 2 {
			got := b.post(t, path, url.Values{"note": {"a <rehearsal>"}})
			require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		}

		require.Equal(t, "a <rehearsal>", b.deadLetter(t, letter.ID).Note)
		require.Empty(t, b.deadLetter(t, other.ID).Resolution)
		require.Contains(t, b.get(t, address.Cause("", letter.Fingerprint, false)).Body, "None is open.")
		require.Regexp(t, `(?s)discarded.*a &lt;rehearsal&gt;`, b.get(t, "/dead-letters/"+string(letter.ID)).Body)
		acts, err := access.ListAudit(t.Context(), b.DB, letter.Fingerprint, "", 10)
		require.NoError(t, err)
		require.Len(t, acts, 1, "only the first one discarded any")
		require.Equal(t, "discardDeadLetters", acts[0].Action)
	})

	t.Run("LetsAKeyboardRedriveACanary", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		letter := b.dies(t, b.Worker(t, "one"), models.FailUnauthorized, "key 1 is refused", "")
		ctx, complaints := b.open(t, "/dead-letters")
		enter := func(selector string) chromedp.Action { return chromedp.SendKeys(selector, kb.Enter, chromedp.ByQuery) }

		require.NoError(t, chromedp.Run(ctx,
			chromedp.WaitVisible("#cause-"+letter.Fingerprint+" .main-link"), enter("#cause-"+letter.Fingerprint+" .main-link"),
			chromedp.WaitVisible(".cause-actions .primary"), enter(".cause-actions .primary"),
			chromedp.WaitVisible("#canary"), enter("#canary"),
			chromedp.WaitVisible(".cause-actions"),
			chromium.Until(`document.body.innerText.includes("Redrive of 1 jobs")`),
		))

		require.Empty(t, complaints())
		require.Equal(t, 1, b.Count(t, "bulk_operations"))
	})
}

func TestDeadLetter(t *testing.T) {
	t.Parallel()

	t.Run("ShowsAttemptsAndLog", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		letter := b.dies(t, b.Worker(t, "host-<b>"), models.FailUnauthorized, "key 1 is refused "+hostile, "the <i>end")

		got := b.get(t, "/dead-letters/"+string(letter.ID)).Body

		require.Regexp(t, `(?s)open</span>.*key 1 is refused &lt;script&gt;.*host-&lt;b&gt;</a>`, got)
		require.Contains(t, got, "<li>the &lt;i&gt;end</li>")
		require.NotContains(t, got, "<script>alert")
		require.Equal(t, http.StatusNotFound, b.get(t, "/dead-letters/dl_x").Status)
	})

	t.Run("RedrivesWithEdits", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		letter := b.dies(t, b.Worker(t, "one"), models.FailUnauthorized, "key 1 is refused", "")
		path := "/dead-letters/" + string(letter.ID) + "/redrive"
		job := b.Reload(t, letter.JobID)

		require.Contains(t, b.get(t, path).Body, `name="prompt"`)
		for params, field := range map[string]string{`{"durationSeconds": 99999}`: "params", `not json`: "params"} {
			got := b.post(t, path, url.Values{"prompt": {"a lighthouse"}, "params": {params}})
			require.Equal(t, http.StatusUnprocessableEntity, got.Status, params)
			require.Contains(t, got.Body, `id="`+field+`-error"`)
			require.Contains(t, got.Body, "a lighthouse", "nothing typed is lost")
		}
		for range 2 {
			got := b.post(t, path, url.Values{"prompt": {"a lighthouse"}, "params": {string(job.Params)}})
			require.Equal(t, "/jobs/"+string(job.ID), got.Header.Get("Location"), got.Body)
		}

		prompts, err := b.Edges(t, job.ID).Prompts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a lighthouse", prompts[job.ID].Text)
		require.Equal(t, job.Run+1, b.Reload(t, job.ID).Run, "a double click opens one run")
		require.Equal(t, http.StatusConflict, b.post(t, "/dead-letters/"+string(letter.ID)+"/discard", nil).Status)
	})
}

// Reelay itself retries a job for those that depend on it: that names no key.
func TestDeadLetterThatReelayResolved(t *testing.T) {
	t.Parallel()

	b := operator(t)
	letter := b.dies(t, b.Worker(t, "host"), models.FailUnauthorized, "the key is refused", "")
	b.Exec(t, "UPDATE dead_letters SET resolved_at = clock_timestamp(), resolution = 'RETRIED', resolved_by = ?", jobs.HostName)

	got := b.get(t, "/dead-letters/"+string(letter.ID))

	require.Equal(t, http.StatusOK, got.Status)
	require.Contains(t, got.Body, jobs.HostName)
}
