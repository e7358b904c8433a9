package console

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/system"
	"github.com/stretchr/testify/require"
)

// requests is one request to each route: its method and its path, with the id of
// a thing of the kind that the route is about.
func requests(t *testing.T, b *browser, job *models.Job, worker models.WorkerID) map[string]shell.Route {
	t.Helper()
	pool := b.pool(t, "walked", nil)
	found := map[string]shell.Route{}
	for _, r := range routes(shell.New(shell.Config{}), Config{}) {
		method, path, ok := strings.Cut(r.Pattern, " ")
		if !ok {
			method, path = http.MethodGet, r.Pattern
		}
		id := string(job.ID)
		if strings.HasPrefix(path, "/workers") {
			id = string(worker)
		}
		if strings.HasPrefix(path, "/pools") {
			id = string(pool.ID)
		}
		path = strings.NewReplacer("{id}", id, "{attempt}", id, "{lane}", "enterprise", "{name}", "queue-depth", "{$}", "").Replace(path)
		found[method+" "+path] = r
	}
	return found
}

// idIn returns what stands in a path at the place of {id} in its pattern.
func idIn(pattern, path string) string {
	_, pattern, _ = strings.Cut(pattern, " ")
	at := slices.Index(strings.Split(pattern, "/"), "{id}")
	if at < 0 {
		return ""
	}
	return strings.Split(path, "/")[at]
}

func TestRoutes(t *testing.T) {
	t.Parallel()

	t.Run("AskForALogin", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)
		job, worker := b.Submit(t), b.Worker(t, "one")

		for request, route := range requests(t, b, job, worker.WorkerID) {
			if route.Open {
				continue
			}
			method, path, _ := strings.Cut(request, " ")
			got := b.request(t, method, path, nil, nil)
			require.Equal(t, http.StatusSeeOther, got.Status, request)
			if method == http.MethodGet {
				require.Equal(t, toLogin(path), got.Header.Get("Location"), request)
			} else {
				require.NotEmpty(t, route.Back, "%s: where the button of the action is", request)
				want := strings.ReplaceAll(route.Back, "{id}", idIn(route.Pattern, path))
				require.Equal(t, toLogin(want), got.Header.Get("Location"), "%s: where the button of the action is", request)
			}
			require.NotContains(t, got.Body, "lighthouse", request)
		}
		require.Equal(t, models.JobQueued, b.Reload(t, job.ID).Status)
	})

	t.Run("TellAStreamThatItNeedsALogin", func(t *testing.T) {
		t.Parallel()

		got := stranger(t).request(t, http.MethodGet, "/jobs/live", nil, http.Header{"Accept": {"text/html, text/event-stream"}})

		require.Equal(t, http.StatusUnauthorized, got.Status)
	})

	t.Run("RefuseOtherSites", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job, worker := b.Submit(t), b.Worker(t, "one")

		for request := range requests(t, b, job, worker.WorkerID) {
			method, path, _ := strings.Cut(request, " ")
			if method == http.MethodGet {
				continue
			}
			got := b.request(t, method, path, nil, http.Header{"Sec-Fetch-Site": {"cross-site"}})
			require.Equal(t, http.StatusForbidden, got.Status, request)
			got = b.request(t, method, path, nil, http.Header{"Origin": {"https://evil.example"}})
			require.Equal(t, http.StatusForbidden, got.Status, request)
		}
		require.Equal(t, models.JobQueued, b.Reload(t, job.ID).Status)
	})

	t.Run("ForbidForeignContent", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)

		pool := b.pool(t, "l4", nil)
		b.decide(t, pool, 0, 3)

		for _, path := range []string{"/jobs", "/jobs/new", "/jobs/" + string(job.ID), "/workers", "/queues", "/pools/new", "/pools/" +
			string(pool.ID), "/nowhere", "/jobs/job_no"} {
			got := b.get(t, path)
			policy := got.Header.Get("Content-Security-Policy")
			require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'", path)
			require.NotContains(t, policy, "unsafe", path)
			require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"), path)
			require.Equal(t, "same-origin", got.Header.Get("Referrer-Policy"), path)
			require.Equal(t, "no-store", got.Header.Get("Cache-Control"), path)
			require.NotRegexp(t, `(?i)\sstyle=|\son[a-z]+=|<script>|<style`, got.Body, path)
		}
	})

	t.Run("AreMissingAtUnknownAddresses", func(t *testing.T) {
		t.Parallel()

		b := operator(t)

		for _, path := range []string{"/nowhere", "/jobs/job_no", "/jobs/%00", "/artifacts/x", "/workers/x/terminate", "/pools/x",
			"/pools/%00/edit", "/static/console.go", "/static/"} {
			got := b.get(t, path)
			require.Equal(t, http.StatusNotFound, got.Status, path)
			require.Contains(t, got.Body, "There is no such", path)
		}
	})
}

func TestMonitor(t *testing.T) {
	t.Parallel()

	t.Run("IsBehindTheLogin", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		require.Equal(t, "the monitor", b.get(t, "/asynqmon/api/queues").Body)

		b.post(t, "/logout", url.Values{})

		require.Equal(t, http.StatusSeeOther, b.get(t, "/asynqmon/api/queues").Status)
		require.Equal(t, http.StatusUnauthorized, b.post(t, "/asynqmon/api/queues/pro:pause", nil).Status)
	})

	t.Run("AuditsAnActionBeforeItHappens", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		acts := func() (acts []string) {
			all, err := b.Reads.History.AuditLog(t.Context(), b.Admin, "", paging.Request{First: 50})
			require.NoError(t, err)
			for _, e := range all.Items {
				if e.Action == "asynqmon" {
					require.Equal(t, "test OPERATOR", e.Actor)
					acts = append(acts, e.Target+" "+string(e.Payload))
				}
			}
			return acts
		}
		var want []string

		for _, read := range []string{http.MethodGet, http.MethodHead} {
			require.Equal(t, http.StatusOK, b.request(t, read, "/asynqmon/api/queues", nil, nil).Status)
		}
		for _, c := range []struct{ method, path, target string }{
			{http.MethodPost, "/asynqmon/api/queues/pro:pause?key=rl_secret", "/asynqmon/api/queues/pro:pause"},
			{http.MethodDelete, "/asynqmon/api/queues/pro/archived_tasks/%00", "/asynqmon/api/queues/pro/archived_tasks/%00"},
			{http.MethodPut, "/asynqmon/", "/asynqmon/"},
		} {
			require.Equal(t, "the monitor", b.request(t, c.method, c.path, nil, nil).Body, c)
			want = append(want, c.target+` {"method": "`+c.method+`", "address": "127.0.0.1"}`)
		}
		require.ElementsMatch(t, want, acts())

		long := b.post(t, "/asynqmon/"+strings.Repeat("a", 200), nil)
		evil := b.request(t, http.MethodDelete, "/asynqmon/api/queues/pro", nil, http.Header{"Origin": {"https://evil.example"}})
		require.Equal(t, http.StatusUnprocessableEntity, long.Status)
		require.Equal(t, http.StatusForbidden, evil.Status)
		require.Len(t, acts(), len(want), "what is not done is not written down")

		_, err := b.DB.ExecContext(t.Context(), "ALTER TABLE audit_log ADD CHECK (false) NOT VALID")
		require.NoError(t, err)
		unwritten := b.post(t, "/asynqmon/api/queues/pro:pause", nil)
		require.Equal(t, http.StatusInternalServerError, unwritten.Status)
		require.NotContains(t, unwritten.Body, "the monitor")
	})

	t.Run("LeadsBackToTheConsole", func(t *testing.T) {
		t.Parallel()

		stack := jobstest.New(t)
		config := configure(stack)
		monitor := system.Monitor(asynq.RedisClientOpt{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { monitor.Close() })
		config.Monitor = monitor
		b := serve(t, stack, config)
		b.logIn(t)

		for _, path := range []string{"/asynqmon", "/asynqmon/queues/pro"} {
			got := b.get(t, path)
			require.Equal(t, http.StatusOK, got.Status, path)
			require.Contains(t, got.Header.Get("Content-Type"), "text/html", path)
			require.Contains(t, got.Body, `<a href="/overview">Back to Reelay</a>`, path)
			require.Contains(t, got.Body, "window.FLAG_ROOT_PATH", path)
			require.NotRegexp(t, "googleapis|manifest", got.Body, path)
		}
		script := regexp.MustCompile(`src="(/asynqmon/static/js/[^"]+)"`).FindStringSubmatch(b.get(t, "/asynqmon").Body)
		require.NotNil(t, script)
		require.NotContains(t, b.get(t, script[1]).Body, "Back to Reelay")
	})

	t.Run("LoadsNothingFromElsewhere", func(t *testing.T) {
		t.Parallel()

		policy := operator(t).get(t, "/asynqmon").Header.Get("Content-Security-Policy")

		require.Contains(t, policy, "default-src 'none'; script-src 'self' 'unsafe-inline';")
		require.NotContains(t, policy, "://")
	})
}
