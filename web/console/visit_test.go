package console

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/static"
	"github.com/stretchr/testify/require"
)

// noticing is a provider that gives notice of preemptions.
type noticing struct{ fleet.Preemptor }

func (*noticing) Preempt(context.Context, *capacity.Pool, fleet.Instance, time.Duration) error {
	return nil
}

func TestFlash(t *testing.T) {
	t.Parallel()

	t.Run("ShowsOnceWhatAnActionDid", func(t *testing.T) {
		t.Parallel()
		b := admin(t)
		b.SeedCatalogue(t)
		require.Equal(t, http.StatusOK, b.get(t, "/models").Status)

		removed := b.post(t, "/models/show/drill/remove", nil)
		require.Equal(t, "/models", removed.Header.Get("Location"))
		require.Contains(t, removed.Header.Get("Set-Cookie"), "HttpOnly")

		const said = `<p class="flash" role="status">Removed drill.</p>`
		b.get(t, static.Asset("console.css"))
		require.Contains(t, b.get(t, "/models").Body, said)
		require.NotContains(t, b.get(t, "/models").Body, "flash")
	})

	t.Run("SaysWhatWasDoneToAWorker", func(t *testing.T) {
		t.Parallel()
		b := admin(t)
		pool := b.pool(t, "spot", nil)
		said := func(path string, form url.Values) string {
			t.Helper()
			got := b.post(t, path, form)
			require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
			_, rest, _ := strings.Cut(b.get(t, got.Header.Get("Location")).Body, `<p class="flash" role="status">`)
			told, _, _ := strings.Cut(rest, "</p>")
			return told
		}
		spot := b.member(t, b.pool(t, "cloud", func(s *capacity.PoolSpec) { s.Zones = []string{"a"} }), 1)
		b.Fleet.Providers = map[string]fleet.Provider{"static": &noticing{}}
		b.Submit(t)
		b.Lease(t, spot)
		require.Equal(t, "Preempting cloud-1: its job resumes on another worker.", said("/workers/"+string(spot.WorkerID)+"/preempt", nil))
		b.Fleet.Providers = nil
		idle, busy := b.Worker(t, "idle-<b>"), b.Worker(t, "busy")
		b.Submit(t)
		b.Lease(t, busy)
		of := func(worker jobs.Principal, verb string) string {
			return "/workers/" + string(worker.WorkerID) + "/" + verb
		}

		require.Equal(t, "Quarantined the host of idle-&lt;b&gt; for 30 min: it gets no jobs. A job that runs there continues.",
			said(of(idle, "quarantine"), url.Values{"minutes": {"30"}, "reason": {"heat"}}))
		require.Equal(t, "Released the host of idle-&lt;b&gt;: it gets jobs again.", said(of(idle, "release"), nil))
		require.Equal(t, "Draining idle-&lt;b&gt;: it takes no more jobs, and ends.", said(of(idle, "drain"), nil))
		require.Equal(t, "Draining busy: it takes no more jobs, and ends after its job, at the latest in 5 min.", said(of(busy, "drain"), nil))
		require.Equal(t, "Terminating busy: its job is queued again, and resumes from its newest checkpoint.", said(of(busy, "terminate"), nil))
		require.Equal(t, "Terminating idle-&lt;b&gt;.", said(of(idle, "terminate"), nil))
		path := string(address.Pool(pool.ID))
		require.Equal(t, "Paused the pool spot: it boots no workers. Those that it has go on.", said(path+"/pause", nil))
		require.Equal(t, "Resumed the pool spot.", said(path+"/resume", nil))
		require.Equal(t, "Deleted the pool.", said(path+"/delete", nil))
		require.Equal(t, "You are logged out.", said("/logout", nil))
	})

	t.Run("IsPlainTextOfABoundedLength", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		shown := func(value string) string {
			got := b.request(t, http.MethodGet, "/models", nil, http.Header{"Cookie": {"reelay-flash=" + value}})
			require.Equal(t, http.StatusOK, got.Status)
			return got.Body
		}

		require.Contains(t, shown(base64.RawURLEncoding.EncodeToString([]byte("<script>alert(1)</script>"))),
			"&lt;script&gt;alert(1)&lt;/script&gt;")
		for _, bad := range []string{"%%%", "=", base64.RawURLEncoding.EncodeToString([]byte("\xff")),
			base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("a", 501)))} {
			require.NotContains(t, shown(bad), `class="flash"`, bad)
		}
	})
}

func TestNavigation(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheInstallationAndThePerson", func(t *testing.T) {
		t.Parallel()
		stack := jobstest.New(t)
		config := configure(stack)
		config.Name = "staging <1>"
		b := serve(t, stack, config)
		b.logIn(t)

		page := b.get(t, "/models").Body

		require.Contains(t, page, "<title>Models · staging &lt;1&gt;</title>")
		require.Contains(t, page, `>staging &lt;1&gt;</span>`)
		require.Contains(t, page, `<a class="who" href="/me" title="Logged in as">operator</a>`)
		require.Contains(t, page, `<form method="post" action="/logout">`)
		require.NotContains(t, b.get(t, "/login").Body, "Log out")
	})

	t.Run("ShowsTheThemeThatThePersonChose", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		for theme, want := range map[string]string{"dark": ` data-theme="dark"`, "light": ` data-theme="light"`, `x"onload=`: "", "": ""} {
			got := b.request(t, http.MethodGet, "/models", nil, http.Header{"Cookie": {"theme=" + theme}}).Body
			if want == "" {
				require.NotContains(t, got, "data-theme")
			} else {
				require.Contains(t, got, want)
			}
		}
	})
}
