package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/jobs"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

var here = outbound.Policy{AllowLoopback: true}

func receive(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func post(url string) jobs.WebhookPost {
	return jobs.WebhookPost{URL: url, ID: "evt_1", At: time.Now(), Body: []byte(`{"type":"job.completed"}`), Secrets: [][]byte{[]byte("one")}}
}

func TestSend(t *testing.T) {
	t.Parallel()

	t.Run("JudgesByTheStatus", func(t *testing.T) {
		t.Parallel()

		for code, expected := range map[int]string{
			200: "", 204: "", 299: "",
			301: "It answered 301: redirects are not followed.", 302: "It answered 302: redirects are not followed.",
			307: "It answered 307: redirects are not followed.", 308: "It answered 308: redirects are not followed.",
			304: "It answered 304: redirects are not followed.",
			400: "It answered 400 Bad Request.", 410: "It answered 410 Gone.", 500: "It answered 500 Internal Server Error.", 799: "It answered 799.",
		} {
			url := receive(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
				w.Header().Set("Retry-After", "77")
				w.WriteHeader(code)
			})

			answer := NewSender(here).Send(t.Context(), post(url))

			require.Equal(t, code, answer.StatusCode)
			require.Equal(t, expected, answer.Error)
			require.Zero(t, answer.RetryAfter, "only 429 and 503 may ask for it")
			require.Positive(t, answer.Duration)
		}
	})

	t.Run("ReadsALittleOfTheAnswer", func(t *testing.T) {
		t.Parallel()

		gone := make(chan struct{})
		url := receive(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		})

		answer := NewSender(here).Send(t.Context(), post(url))

		require.Equal(t, jobs.WebhookAnswer{StatusCode: 200, Duration: answer.Duration}, answer)
		<-gone
	})

	t.Run("SaysWhyThereIsNoAnswer", func(t *testing.T) {
		t.Parallel()

		hangUp := receive(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		big := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 64<<10)) })
		for name, url := range map[string]string{
			"it hangs up": hangUp, "a head that is too large": big, "nobody is there": "http://127.0.0.1:1/",
			"TLS that is none": strings.Replace(hangUp, "http:", "https:", 1), "metadata": "http://169.254.169.254/", "no URL": "http://[::1",
		} {
			answer := NewSender(here).Send(t.Context(), post(url))

			require.Zero(t, answer.StatusCode, name)
			require.NotEmpty(t, answer.Error, name)
			require.NotContains(t, answer.Error, "127.0.0.1", name)
			require.NotContains(t, answer.Error, "http", name)
		}
	})

	t.Run("WaitsFifteenSeconds", func(t *testing.T) {
		t.Parallel()

		require.Equal(t, 15*time.Second, NewSender(here).client.Timeout)
	})

	t.Run("SignsAsTheOfficialLibraryVerifies", func(t *testing.T) {
		t.Parallel()

		got := make(chan http.Header, 1)
		url := receive(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
		p := post(url)
		p.Secrets = append(p.Secrets, []byte("two"))

		NewSender(here).Send(t.Context(), p)

		header := <-got
		for _, secret := range p.Secrets {
			verifier, err := standardwebhooks.NewWebhookRaw(secret)
			require.NoError(t, err)
			require.NoError(t, verifier.Verify(p.Body, header))
			expected, err := verifier.Sign("evt_1", p.At, p.Body)
			require.NoError(t, err)
			require.Contains(t, header.Get("webhook-signature"), expected)
			require.Error(t, verifier.Verify(append(p.Body, ' '), header))
		}
		require.Equal(t, "application/json", header.Get("Content-Type"))
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for value, expected := range map[string]time.Duration{
		"": 0, "0": 0, "-1": 0, "soon": 0, "1.5": 0, "30": 30 * time.Second, " 30 ": 30 * time.Second,
		"99999999": 24 * time.Hour, "99999999999999999999999": 24 * time.Hour, "-99999999999999999999999": 0,
		"Sat, 31 Jan 2026 12:01:00 GMT": time.Minute, "Sat, 31 Jan 2026 11:00:00 GMT": 0, "Thu, 31 Jan 2099 12:00:00 GMT": 24 * time.Hour,
	} {
		require.Equal(t, expected, retryAfter(value, now), value)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "30", "-1", "99999999999999999999", "Sat, 31 Jan 2026 12:01:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wait := retryAfter(value, time.Now())
		require.True(t, wait >= 0 && wait <= maxRetryAfter, wait)
	})
}
