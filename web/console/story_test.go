package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestBulkStory(t *testing.T) {
	t.Parallel()

	const many = 5_000
	b := operator(t)
	b.Exec(t, "UPDATE accounts SET max_queued = 100000, submits_per_minute = 1000000")
	for range many / 100 {
		batch := make([]submit.Submission, 100)
		for i := range batch {
			batch[i] = jobstest.Submission()
		}
		_, err := b.Submitter.SubmitMany(t.Context(), b.Client, batch)
		require.NoError(t, err)
	}
	ctx, complaints := b.open(t, "/jobs?status=QUEUED")

	var still string
	require.NoError(t, chromedp.Run(ctx,
		chromium.Until(`document.querySelector("#pulse").innerText === "Live"`),
		chromedp.Click("[data-select-all]"),
		chromium.Until(`document.querySelector("#pulse").innerText === "Paused"`),
		chromedp.Text("#stale strong", &still),
		chromedp.Click("[data-bulk-all]"),
		chromedp.KeyEvent(kb.Tab), // away from the box
		chromedp.Click(`[data-bulk-action="CANCEL"]`),
		chromedp.WaitReady(`form[action="/bulk/new"][method="post"]`),
	))
	require.Equal(t, "Updates paused while rows are selected.", still)
	var asked, shown string
	require.NoError(t, chromedp.Run(ctx, chromedp.Text("#content h1", &asked)))
	require.Regexp(t, `^Cancel 5.000 jobs\?$`, asked)
	require.Equal(t, many, b.queued(t), "asking does nothing")

	require.NoError(t, chromedp.Run(ctx, chromedp.Click(`form[action="/bulk/new"] button[type="submit"]`),
		chromedp.WaitReady("#live .progress-line")))
	op := theBulk(t, b)
	require.Equal(t, many, op.Matched)
	changed := b.Submit(t) // it came later, and is none of them
	require.Equal(t, 200, jobstest.BulkPass(t, b.Stack, b.Bulk, "5 s"))
	require.NoError(t, chromedp.Run(ctx, chromium.Until(`/\b200 done, 0 failed/.test(document.querySelector(".progress-line").innerText)`)))
	// All of them take half a minute of a CPU: a person changes their mind.
	require.NoError(t, chromedp.Run(ctx,
		chromedp.Click(`form[action$="/cancel"] button`),
		chromedp.WaitReady(".progress-line .badge.is-cancelled"),
		chromedp.Text(".progress-line", &shown),
	))
	require.Contains(t, shown, "200 done, 0 failed")
	require.Equal(t, many-200+1, b.queued(t))
	require.Equal(t, models.JobQueued, b.Reload(t, changed.ID).Status)
	require.Empty(t, complaints())
}

// queued counts the queued jobs.
func (b *browser) queued(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, b.DB.NewRaw("SELECT count(*) FROM jobs WHERE status = 'QUEUED'").Scan(t.Context(), &n))
	return n
}

// Without scripts, a job is submitted, cancelled, retried and deleted by the forms of its pages.
func TestJobStory(t *testing.T) {
	t.Parallel()

	b := operator(t)
	send := func(page, action string) string {
		t.Helper()
		for _, f := range b.posted(t, page) {
			if f.action == action {
				f.fill()
				got := b.post(t, action, f.fields)
				require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
				return got.Header.Get("Location")
			}
		}
		require.Fail(t, "there is no form "+action, page)
		return ""
	}

	job := send("/jobs/new", "/jobs/new")
	status := func() models.JobStatus { return b.Reload(t, models.JobID(strings.TrimPrefix(job, "/jobs/"))).Status }
	require.Equal(t, models.JobQueued, status())
	for _, verb := range []string{"cancel", "retry", "cancel", "delete"} {
		require.Contains(t, b.page(t, job), `href="`+job+"/"+verb+`"`)
		require.Equal(t, job, send(job+"/"+verb, job+"/"+verb))
		if verb == "retry" {
			require.Equal(t, models.JobQueued, status())
		} else {
			require.Equal(t, models.JobCancelled, status())
		}
	}
	require.Contains(t, b.page(t, job), "The prompt, the artifacts and the failure reasons were deleted")
}

// A form that an operator opened leads to the login once the role is taken away, and the viewer who
// comes back from there is told why the button is disabled.
func TestRoleStory(t *testing.T) {
	t.Parallel()

	b := stranger(t)
	b.NewMember(t, "ana@example.com", access.RoleOperator)
	members, err := b.Members.List(t.Context(), b.Admin)
	require.NoError(t, err)
	login := url.Values{"email": {"ana@example.com"}, "password": {jobstest.Password}}
	require.Equal(t, http.StatusSeeOther, b.post(t, "/login", login).Status)
	job := b.Submit(t)
	path := "/jobs/" + string(job.ID)
	require.Contains(t, b.page(t, path), `href="`+path+`/cancel"`)

	viewer := access.RoleViewer
	_, err = b.Members.Update(t.Context(), b.Admin, members[0].ID, auth.MemberUpdate{Role: &viewer})
	require.NoError(t, err)

	got := b.post(t, path+"/cancel", nil)
	require.Equal(t, toLogin(path), got.Header.Get("Location"), got.Body)
	require.Equal(t, http.StatusSeeOther, b.post(t, "/login", login).Status)
	require.Contains(t, b.page(t, path), "Requires the role operator. Your role is viewer.")
	got = b.post(t, path+"/cancel", nil)
	require.Equal(t, http.StatusForbidden, got.Status)
	require.Contains(t, got.Body, "Your role is VIEWER")
	require.Equal(t, models.JobQueued, b.Reload(t, job.ID).Status)
}

func TestStories(t *testing.T) {
	t.Parallel()

	t.Run("RetriesAJobByTheKeyboardAlone", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := jobstest.CancelledJob(t, b.Stack)
		ctx, complaints := b.open(t, "/overview")

		require.NoError(t, chromedp.Run(ctx,
			chromedp.KeyEvent("gj"),
			chromedp.WaitReady(`nav a[aria-current][href="/jobs"]`), chromedp.WaitReady("#"+string(job.ID)), chromium.Complete(),
			chromedp.KeyEvent("j"),
			chromium.Until(`document.activeElement.closest("tr")?.id === "`+string(job.ID)+`"`),
			chromedp.KeyEvent(kb.Enter),
			chromedp.WaitReady("#percent"), chromium.Complete(),
			chromedp.KeyEvent("r"),
			chromedp.WaitReady(`form[action$="/retry"]`), chromium.Complete(),
		))
		at := false
		for range 60 {
			require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(`document.activeElement.matches("form[action$='/retry'] button[type=submit]")`,
				&at)))
			if at {
				break
			}
			require.NoError(t, chromedp.Run(ctx, chromedp.KeyEvent(kb.Tab)))
		}
		require.True(t, at, "the key Tab reaches the button")
		require.NoError(t, chromedp.Run(ctx, chromedp.KeyEvent(kb.Enter), chromedp.WaitReady("#percent")))
		require.Equal(t, 2, b.Reload(t, job.ID).Run)
		require.Empty(t, complaints())
	})

	t.Run("CatchesUpOnTheOverviewAfterTheStreamIsLost", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		address, err := url.Parse(b.url)
		require.NoError(t, err)
		server := faultproxy.New(t, "tcp", address.Host)
		b.url = "http://" + server.Addr()
		ctx, _ := b.open(t, "/overview")
		queued := func(n string) chromedp.Action {
			return chromium.Until(`document.querySelector(".tile b")?.innerText === "` + n + `"`)
		}
		b.Submit(t)
		require.NoError(t, chromedp.Run(ctx, queued("1")), "the stream is open")

		server.Cut()
		require.NoError(t, chromedp.Run(ctx, chromium.Until(shownStale)))
		b.Submit(t)
		server.Heal()

		require.NoError(t, chromedp.Run(ctx, chromium.Until(hiddenStale), queued("2")))
	})

	t.Run("SuggestsNamesAsText", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.pool(t, markup, nil)
		b.Submit(t)
		ctx, complaints := b.open(t, "/jobs")

		var suggested string
		var written []string
		require.NoError(t, chromedp.Run(ctx,
			chromedp.SendKeys("#job-search", "pool:"),
			chromium.Until(`document.querySelector("#job-search-list [role=option]")?.innerText.includes("class=pwned")`),
			chromedp.Text("#job-search-list", &suggested),
			chromedp.Evaluate(unescaped, &written),
		))
		require.Contains(t, suggested, "onerror=alert(1)")
		require.Empty(t, written)
		require.Empty(t, complaints())
	})
}

// A browser whose scripts are off submits a job with its form, and cancels it with a reason.
func TestStoryWithoutScripts(t *testing.T) {
	t.Parallel()

	b := operator(t)
	ctx, complaints := b.open(t, "/overview")
	const prompt = "a kite over the dunes"
	var left, library string

	require.NoError(t, chromedp.Run(ctx,
		emulation.SetScriptExecutionDisabled(true),
		chromedp.Click(`nav a[href="/jobs/new"], a.button[href="/jobs/new"], a[href="/jobs/new"]`),
		chromedp.WaitReady(`form[action="/jobs/new"] textarea[name="prompt"]`),
		chromedp.Evaluate("typeof htmx", &library),
		chromedp.SendKeys(`textarea[name="prompt"]`, prompt),
		chromedp.Click(`form[action="/jobs/new"] button[type="submit"]:not([formaction]):not([name])`),
		chromedp.WaitReady(`a[href$="/cancel"]`),
		chromedp.Text("#content h1", &left),
		chromedp.Click(`a[href$="/cancel"]`),
		chromedp.WaitReady(`form[action$="/cancel"] [name="reason"]`),
		chromedp.SendKeys(`form[action$="/cancel"] [name="reason"]`, "too windy"),
		chromedp.Click(`form[action$="/cancel"] button[type="submit"]`),
		chromedp.WaitReady(`a[href$="/retry"]`),
	))

	require.Equal(t, "undefined", library, "no script of the page ran")
	require.Equal(t, prompt, left)
	jobs := b.jobs(t)
	require.Len(t, jobs, 1)
	require.Equal(t, models.JobCancelled, jobs[0].Status)
	require.Equal(t, "too windy", jobs[0].CancelReason)
	require.Empty(t, complaints())
}
