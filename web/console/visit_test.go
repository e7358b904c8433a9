package console

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

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
		b.get(t, asset("console.css"))
		require.Contains(t, b.get(t, "/models").Body, said)
		require.NotContains(t, b.get(t, "/models").Body, "flash")
	})

	t.Run("IsPlainTextOfABoundedLength", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		shown := func(value string) string {
			got := b.request(t, http.MethodGet, "/models", nil, http.Header{"Cookie": {"reelay-flash=" + value}})
			require.Equal(t, http.StatusOK, got.Status)
			return got.Body
		}

		require.Contains(t, shown(base64.RawURLEncoding.EncodeToString([]byte("<script>alert(1)</script>"))), "&lt;script&gt;alert(1)&lt;/script&gt;")
		for _, bad := range []string{"%%%", "=", base64.RawURLEncoding.EncodeToString([]byte("\xff")), base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("a", maxFlash+1)))} {
			require.NotContains(t, shown(bad), `class="flash"`, bad)
		}

		long := httptest.NewRecorder()
		require.NoError(t, new(console).done(long, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), "/jobs", strings.Repeat("ä", maxFlash)))
		cookie := long.Result().Cookies()[0]
		message, err := base64.RawURLEncoding.DecodeString(cookie.Value)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("ä", maxFlash/2), string(message))
	})
}

func TestNavigation(t *testing.T) {
	t.Parallel()

	t.Run("HasNoTwoSectionsWithTheSameKeys", func(t *testing.T) {
		t.Parallel()

		keys := map[string]string{"g n": "New job"}
		for _, g := range navigation {
			for _, s := range g.sections {
				require.Empty(t, keys[s.keys], s.name)
				keys[s.keys] = s.name
			}
		}
	})

	t.Run("LeadsBackToWhereAnActionWas", func(t *testing.T) {
		t.Parallel()

		for path, label := range map[string]string{
			"/jobs": "Back to jobs", "/jobs?q=a": "Back to jobs", "/jobs/new": "Back to the form", "/jobs/job_1": "Back to the job",
			"/workers": "Back to workers", "/pools/pol_1": "Back to the pool", "/models/apply": "Back to the form", "/asynqmon/x": "Back to asynq", "/nowhere": "Back to jobs",
		} {
			require.Equal(t, label, backLabel(path), path)
		}
	})

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
