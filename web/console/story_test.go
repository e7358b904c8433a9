package console

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/reelay/reelay/internal/chromium"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestBulkStory(t *testing.T) {
	t.Parallel()

	const many = 5_000
	b := operator(t)
	b.Exec(t, "UPDATE accounts SET max_queued = 100000, submits_per_minute = 1000000")
	for range many / 100 {
		batch := make([]jobs.Submission, 100)
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

	require.NoError(t, chromedp.Run(ctx, chromedp.Click(`form[action="/bulk/new"] button[type="submit"]`), chromedp.WaitReady("#live .progress-line")))
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
