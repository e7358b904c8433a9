package console

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// incident is a bad night: a host crashes models, the cloud took machines away, a customer floods
// a lane, another lane is paused, the pool is at its limit, and an endpoint refuses webhooks.
func incident(t *testing.T) (b *browser, waiting, failed, told *models.Job) {
	t.Helper()
	b = admin(t)
	pool := b.pool(t, "h200-spot", func(s *capacity.PoolSpec) { s.MaxWorkers = 2 })
	fail := func(attempts int, hosts ...string) *models.Job {
		job := jobstest.SubmitAs(t, b.Stack, b.Client, func(in *submit.Submission) { in.MaxAttempts = &attempts })
		for i, host := range hosts {
			worker := b.Worker(t, host)
			granted, fence := b.Lease(t, worker)
			require.Equal(t, job.ID, granted.Job.ID)
			_, err := b.Attempts.Fail(t.Context(), worker, fence,
				lease.Failure{Class: models.FailModelCrash, Message: "CUDA error: an illegal memory access"})
			require.NoError(t, err)
			if i < len(hosts)-1 {
				b.Exec(t, "UPDATE jobs SET run_at = clock_timestamp() WHERE status = 'SCHEDULED'")
				_, err = b.Releaser.Due(t.Context())
				require.NoError(t, err)
			}
			_, err = b.Fleet.TerminateWorker(t.Context(), b.Admin, worker.WorkerID)
			require.NoError(t, err)
		}
		return job
	}
	failed = fail(3, "h200-7", "h200-8", "h200-9")
	bad := b.Worker(t, "h200-3")
	for range 2 {
		jobstest.SubmitAs(t, b.Stack, b.Client, func(in *submit.Submission) { in.MaxAttempts = new(1) })
		_, fence := b.Lease(t, bad)
		_, err := b.Attempts.Fail(t.Context(), bad, fence, lease.Failure{Class: models.FailModelCrash, Message: "CUDA error: uncorrectable ECC"})
		require.NoError(t, err)
	}
	for _, host := range []string{"spot-1", "spot-2"} { // taken away last night
		b.Submit(t)
		worker := b.Worker(t, host)
		_, fence := b.Lease(t, worker)
		_, err := b.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		_, err = b.Fleet.TerminateWorker(t.Context(), b.Admin, worker.WorkerID)
		require.NoError(t, err)
	}
	b.Exec(t, "UPDATE workers SET pool_id = ?, capacity_class = 'SPOT', price_per_hour_usd = 4 WHERE provider_instance_id LIKE 'spot-%'",
		pool.ID)
	b.Exec(t, `UPDATE job_attempts SET wasted_gpu_seconds = 900, leased_at = leased_at - interval '7 hours', started_at = started_at - interval '7 hours',
		last_heartbeat_at = last_heartbeat_at - interval '7 hours', lease_expires_at = lease_expires_at - interval '7 hours', ended_at = ended_at - interval '6 hours' WHERE failure_class = 'PREEMPTED'`)
	for _, host := range []string{"h200-1", "h200-2"} {
		b.Lease(t, b.Worker(t, host))
	}
	b.Exec(t, "UPDATE workers SET pool_id = ? WHERE provider_instance_id IN ('h200-1', 'h200-2')", pool.ID)
	flood := b.NewKey(t, b.NewAccount(t, "acme", models.TierEnterprise), access.RoleClient)
	for range 20 {
		jobstest.SubmitAs(t, b.Stack, flood, nil)
	}
	b.Submit(t)
	pro := b.NewKey(t, b.NewAccount(t, "studio", models.TierPro), access.RoleClient)
	_, err := b.Operator.PauseQueue(t.Context(), b.Admin, models.TierPro, "", "The storage is full.")
	require.NoError(t, err)
	waiting = jobstest.SubmitAs(t, b.Stack, pro, nil)

	receiver := jobstest.NewReceiver(t)
	jobstest.Hook(t, b.Stack, receiver)
	told = jobstest.CancelledJob(t, b.Stack)
	jobstest.Deliver(t, b.Stack)
	b.FireAlert(t)
	_, err = b.Accounts.Update(t.Context(), b.Admin, b.Account.ID, auth.AccountInput{MaxRunning: new(77)})
	require.NoError(t, err)
	return b, waiting, failed, told
}

var (
	anyLink = regexp.MustCompile(`(?s)<a\b[^>]*?href="([^"]+)"[^>]*>(.*?)</a>`)
	anyTag  = regexp.MustCompile(`<[^>]*>`)
	blanks  = regexp.MustCompile(`\s+`)
)

// readable is what a person reads of HTML.
func readable(page string) string {
	if _, main, found := strings.Cut(page, "<main"); found {
		page = main
	}
	return strings.TrimSpace(blanks.ReplaceAllString(html.UnescapeString(anyTag.ReplaceAllString(strings.ReplaceAll(page, "<wbr>", ""), " ")),
		" "))
}

// click follows the first link of a page whose text or address contains what.
func (b *browser) click(t *testing.T, page, what string) string {
	t.Helper()
	_, page, _ = strings.Cut(page, "<main")
	for _, link := range anyLink.FindAllStringSubmatch(page, -1) {
		if address := html.UnescapeString(link[1]); strings.Contains(readable(link[2]), what) || strings.Contains(address, what) {
			got := b.get(t, address)
			require.Equal(t, http.StatusOK, got.Status, address)
			return got.Body
		}
	}
	require.Fail(t, "there is no link "+what, readable(page))
	return ""
}

// Ten questions that an operator asks at 3 a.m. The overview answers each within three clicks.
func TestNight(t *testing.T) {
	t.Parallel()

	b, waiting, failed, told := incident(t)
	for question, c := range map[string]struct {
		clicks []string
		answer string
	}{
		"why does the job wait":           {[]string{"tier%3Apro", string(waiting.ID)}, `[Pp]ro lane is paused`},
		"which host eats jobs":            {[]string{"Jobs fail on worker h200-3"}, `2 of 2 attempts lost or crashed`},
		"what did the reclamation cost":   {[]string{"Preemptions", "h200-spot"}, `2 workers taken, 2 jobs interrupted, .* which cost \$2\.00`},
		"who paused the lane":             {nil, `[Tt]he pro lane is paused by test ADMIN.*The storage is full`},
		"which customer floods the queue": {[]string{"Top accounts by queue"}, `acme 20, \d+ % floods`},
		"why did it fail three times": {[]string{"Failure rate", string(failed.ID)},
			`CUDA error: an illegal memory access.*h200-7.*h200-8.*h200-9`},
		"what does the alert ask for":  {[]string{"250 jobs wait (limit 200)."}, `What to do`},
		"is the fleet at its limit":    {nil, `Pool h200-spot is at its limit of 2 workers, and jobs wait`},
		"when is the queue empty":      {nil, `Queues empty in [\d.]+ (s|min)`},
		"did the webhook arrive":       {[]string{"Webhook deliveries", "/hook", string(told.ID)}, `job.cancelled.* delivered`},
		"what changed since yesterday": {[]string{"What changed since yesterday"}, `max running: \d+ → 77`},
	} {
		t.Run(strings.ReplaceAll(question, " ", "-"), func(t *testing.T) {
			page := b.page(t, "/overview")
			for _, what := range c.clicks {
				page = b.click(t, page, what)
			}

			require.LessOrEqual(t, len(c.clicks), 3)
			require.Regexp(t, c.answer, readable(page))
		})
	}
}
