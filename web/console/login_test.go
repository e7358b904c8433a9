package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestLogIn(t *testing.T) {
	t.Parallel()

	t.Run("OpensASession", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)

		got := b.post(t, "/login", url.Values{"key": {" " + b.Secrets[access.RoleOperator] + "\n"}, "next": {"/workers?all=1"}})

		require.Equal(t, http.StatusSeeOther, got.Status)
		require.Equal(t, "/workers?all=1", got.Header.Get("Location"))
		cookie := got.Header.Get("Set-Cookie")
		require.Regexp(t, `^reelay=[^;]{40,}; Path=/; HttpOnly; SameSite=Lax$`, cookie)
		require.NotContains(t, cookie, b.Secrets[access.RoleOperator])
		require.Equal(t, http.StatusOK, b.get(t, "/workers").Status)
	})

	t.Run("BindsTheSessionToTheHostOverHTTPS", func(t *testing.T) {
		t.Parallel()

		stack := jobstest.New(t)
		config := configure(stack)
		config.Secure = true
		form := url.Values{"key": {stack.Secrets[access.RoleOperator]}}
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()

		New(config).ServeHTTP(w, r)

		require.Regexp(t, `^__Host-reelay=[^;]{40,}; Path=/; HttpOnly; Secure; SameSite=Lax$`, w.Header().Get("Set-Cookie"))
		require.NotEmpty(t, w.Header().Get("Strict-Transport-Security"))
	})

	t.Run("SaysWhyNot", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)

		got := b.post(t, "/login", url.Values{"key": {"rl_wrong"}, "next": {"/queues"}})
		require.Equal(t, http.StatusUnauthorized, got.Status)
		require.Contains(t, got.Body, "This key is invalid.")
		require.Contains(t, got.Body, `value="/queues"`)
		require.NotContains(t, got.Body, "rl_wrong")

		got = b.post(t, "/login", url.Values{"key": {b.Secrets[access.RoleClient]}})
		require.Equal(t, http.StatusForbidden, got.Status)
		require.Contains(t, got.Body, "The console is for operators")
		require.Empty(t, got.Header.Get("Set-Cookie"))
	})

	t.Run("LetsTheRightKeyInAfterManyWrongOnes", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)
		for range 20 {
			require.Equal(t, http.StatusUnauthorized, b.post(t, "/login", url.Values{"key": {"rl_wrong"}}).Status)
		}

		elsewhere := http.Header{"X-Forwarded-For": {"198.51.100.7"}, "X-Real-Ip": {"198.51.100.7"}, "Forwarded": {"for=198.51.100.7"}}
		wrong := b.request(t, http.MethodPost, "/login", url.Values{"key": {"rl_wrong"}}, elsewhere)
		right := b.request(t, http.MethodPost, "/login", url.Values{"key": {b.Secrets[access.RoleOperator]}}, elsewhere)

		require.Equal(t, http.StatusTooManyRequests, wrong.Status, "what a header says of the address counts for nothing")
		require.Equal(t, "60", wrong.Header.Get("Retry-After"))
		require.Empty(t, wrong.Header.Get("Set-Cookie"))
		require.Equal(t, http.StatusSeeOther, right.Status, "strangers behind the same proxy must not lock operators out")
	})

	t.Run("RefusesAKeyTooLargeToBeOne", func(t *testing.T) {
		t.Parallel()

		got := stranger(t).post(t, "/login", url.Values{"key": {strings.Repeat("x", 1<<20)}})

		require.Equal(t, http.StatusRequestEntityTooLarge, got.Status)
	})
}

func TestLogOut(t *testing.T) {
	t.Parallel()

	t.Run("EndsTheSessionForEveryHolderOfItsCookie", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		home, err := url.Parse(b.url)
		require.NoError(t, err)
		stolen := b.client.Jar.Cookies(home)[0]

		require.Equal(t, http.StatusSeeOther, b.post(t, "/logout", nil).Status)

		b.client.Jar.SetCookies(home, []*http.Cookie{stolen})
		require.Equal(t, http.StatusSeeOther, b.get(t, "/jobs").Status)
	})

	t.Run("FollowsARevokedKey", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		p, err := b.Keys.Authenticate(t.Context(), b.Secrets[access.RoleOperator])
		require.NoError(t, err)

		require.NoError(t, b.Keys.Revoke(t.Context(), b.Admin, p.KeyID))

		require.Equal(t, http.StatusSeeOther, b.get(t, "/jobs").Status)
	})
}

func TestLogin(t *testing.T) {
	t.Parallel()

	for name, end := range map[string]func(t *testing.T, b *browser){
		"EndsItsStreamsWithItsKey": func(t *testing.T, b *browser) {
			p, err := b.Keys.Authenticate(t.Context(), b.Secrets[access.RoleOperator])
			require.NoError(t, err)
			require.NoError(t, b.Keys.Revoke(t.Context(), b.Admin, p.KeyID))
		},
		"EndsItsStreamsWithItself": func(t *testing.T, b *browser) {
			require.Equal(t, http.StatusSeeOther, b.post(t, "/logout", nil).Status)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := operator(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/queues/live", nil)
			require.NoError(t, err)
			req.Header.Set("Accept", "text/event-stream")
			stream, err := b.client.Do(req)
			require.NoError(t, err)
			defer stream.Body.Close()
			require.Equal(t, http.StatusOK, stream.StatusCode)

			end(t, b)

			all, err := io.ReadAll(stream.Body) // until it ends
			require.NoError(t, err)
			require.Contains(t, string(all), "event: logout\n", "the page must learn why")
		})
	}
}
