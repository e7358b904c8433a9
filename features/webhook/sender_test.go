package webhook

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/models"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

var here = outbound.Policy{AllowLoopback: true}

var one, two = []byte(strings.Repeat("1", 24)), []byte(strings.Repeat("2", 64))

func receive(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func post(url string) Post {
	return Post{URL: url, ID: "evt_1", At: time.Now(), Body: []byte(`{"type":"job.completed"}`), Secrets: [][]byte{one}}
}

func TestSend(t *testing.T) {
	t.Parallel()

	t.Run("DecidesByTheStatus", func(t *testing.T) {
		t.Parallel()

		for code, expected := range map[int]string{
			200: "", 204: "", 299: "",
			301: "The endpoint responded with status 301: redirects are not followed.",
			302: "The endpoint responded with status 302: redirects are not followed.",
			307: "The endpoint responded with status 307: redirects are not followed.",
			308: "The endpoint responded with status 308: redirects are not followed.",
			304: "The endpoint responded with status 304: redirects are not followed.",
			400: "The endpoint responded with status 400 Bad Request.", 410: "The endpoint responded with status 410 Gone.",
			500: "The endpoint responded with status 500 Internal Server Error.", 799: "The endpoint responded with status 799.",
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

	t.Run("ReadsLittleOfTheResponse", func(t *testing.T) {
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

		require.Equal(t, Answer{StatusCode: 200, Duration: answer.Duration}, answer)
		<-gone
	})

	t.Run("ReportsWhyThereIsNoResponse", func(t *testing.T) {
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

	t.Run("RefusesAnEmptySecret", func(t *testing.T) {
		t.Parallel()

		url := receive(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
		for _, secrets := range [][][]byte{nil, {nil}, {{}}, {one, {}}, {one[1:]}, {append(two, '2')}} {
			p := post(url)
			p.Secrets = secrets

			require.Equal(t, "It was not sent: its secret is none that can sign. Rotate the secret.", NewSender(here).Send(t.Context(), p).Error)
		}
	})

	t.Run("TimesOutAfterFifteenSeconds", func(t *testing.T) {
		t.Parallel()

		require.Equal(t, 15*time.Second, NewSender(here).client.(outbound.Client).Timeout)
	})

	t.Run("SignsLikeTheOfficialLibrary", func(t *testing.T) {
		t.Parallel()

		got := make(chan http.Header, 1)
		url := receive(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
		p := post(url)
		p.Secrets = append(p.Secrets, two)

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

// TestSign_MatchesTheOfficialLibrary compares the signatures with the official library's, at a fixed
// time.
func TestSign_MatchesTheOfficialLibrary(t *testing.T) {
	t.Parallel()

	const body = `{"type":"job.completed","data":{"b":1,"a":2}}`
	synctest.Test(t, func(t *testing.T) {
		id := string(models.NewWebhookEventID())
		signed := func(ago time.Duration, secrets ...[]byte) http.Header {
			at := strconv.FormatInt(time.Now().Add(-ago).Unix(), 10)
			header := http.Header{}
			header.Set("Webhook-Id", id)
			header.Set("Webhook-Timestamp", at)
			header.Set("Webhook-Signature", sign(id, at, []byte(body), secrets))
			return header
		}
		with := func(name, value string) http.Header {
			header := signed(0, one)
			header.Set(name, value)
			return header
		}
		v1 := signed(0, one).Get("Webhook-Signature")
		for name, c := range map[string]struct {
			header   http.Header
			body     string
			accepted bool
		}{
			"as it came":               {signed(0, one), body, true},
			"of 299 s ago":             {signed(299*time.Second, one), body, true},
			"of 301 s ago":             {signed(301*time.Second, one), body, false},
			"of in 299 s":              {signed(-299*time.Second, one), body, true},
			"of in 301 s":              {signed(-301*time.Second, one), body, false},
			"written anew":             {signed(0, one), `{"type":"job.completed","data":{"a":2,"b":1}}`, false},
			"with a space":             {signed(0, one), body + " ", false},
			"by another's secret":      {signed(0, two), body, false},
			"by a new and an old one":  {signed(0, two, one), body, true},
			"one of two is no text":    {with("Webhook-Signature", "v1,AAAA "+v1), body, true},
			"of another version alone": {with("Webhook-Signature", strings.Replace(v1, "v1,", "v2,", 1)), body, false},
			"of no version":            {with("Webhook-Signature", strings.TrimPrefix(v1, "v1,")), body, false},
			"under another id":         {with("Webhook-Id", "evt_1"), body, false},
			"at another time":          {with("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix()+1, 10)), body, false},
			"at no time":               {with("Webhook-Timestamp", "now"), body, false},
			"without an id":            {with("Webhook-Id", ""), body, false},
		} {
			verifier, err := standardwebhooks.NewWebhookRaw(one)
			require.NoError(t, err)

			require.Equal(t, c.accepted, verifier.Verify([]byte(c.body), c.header) == nil, name)
		}
		require.NotContains(t, id, ".", "id.timestamp.body is to be read in one way")
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
