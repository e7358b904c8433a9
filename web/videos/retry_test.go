//lint:file-ignore SA1019 the package calls its videos deprecated since OpenAI serves them no more; Reelay does

package videos_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const (
	count = "X-Stainless-Retry-Count"
	boat  = `{"prompt": "a paper boat"}`
)

func TestRetry(t *testing.T) {
	t.Parallel()

	t.Run("AfterALostResponseReturnsTheFirstJob", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		at, err := url.Parse(d.url)
		require.NoError(t, err)
		proxy := faultproxy.New(t, "tcp", at.Host)
		answers := 0
		proxy.Lose(func(answer []byte) bool {
			if bytes.Contains(answer, []byte(`"object":"video"`)) {
				answers++
			}
			return answers == 1
		})
		client := d.official(option.WithBaseURL("http://" + proxy.Addr() + "/v1"))

		v, err := client.Videos.New(t.Context(), openai.VideoNewParams{Prompt: "a paper boat"})

		require.NoError(t, err)
		require.Equal(t, 1, proxy.Lost(), "the first answer was on its way")
		require.Equal(t, 1, d.Count(t, "jobs"))
		require.Equal(t, d.get(t, "/v1/videos").Body["first_id"], v.ID)
		d.RequireInvariants(t)
	})

	t.Run("ReturnsTheFirstJobEachTime", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		first := d.create(t, boat)

		require.Equal(t, first, d.create(t, `{"seconds": 4, "prompt": "a paper boat", "size": "720x1280"}`, count, "1"),
			"the defaults are the same request")
		require.Equal(t, first, d.create(t, boat, count, "2"))
		require.Equal(t, first, d.create(t, boat, count, "2"), "a proxy may send it twice")
		contentType, body := form(t, "prompt", "a paper boat")
		require.Equal(t, first, d.do(t, http.MethodPost, "/v1/videos", contentType, body, count, "1").Body["id"], "whatever the encoding")
		require.Equal(t, 1, d.Count(t, "jobs"))
	})

	t.Run("OfARequestThatNeverArrivedMakesOneJob", func(t *testing.T) {
		t.Parallel()

		d := open(t)

		second := d.create(t, boat, count, "1")

		require.Equal(t, second, d.create(t, boat, count, "2"))
		require.Equal(t, second, d.create(t, boat), "it may be the first one, late")
		require.NotEqual(t, second, d.create(t, boat), "it came once")
		require.Equal(t, 2, d.Count(t, "jobs"))
	})

	t.Run("IsNotUsedAfterTheEndOfItsRequest", func(t *testing.T) {
		t.Parallel()

		for name, end := range map[string]func(d *desk, id string){
			"rendered": func(d *desk, _ string) { d.render(t) },
			"deleted":  func(d *desk, id string) { d.do(t, http.MethodDelete, "/v1/videos/"+id, "", nil) },
			"old": func(d *desk, _ string) {
				d.Exec(t, "UPDATE videos SET created_at = created_at - interval '16 minutes'")
			},
		} {
			d := open(t) // there is no other job to render
			retry := d.create(t, boat, count, "1")
			end(d, retry)
			require.NotEqual(t, retry, d.create(t, boat), name)
		}
	})

	t.Run("DuringTheFirstMakesOneJobInEitherOrder", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		for i := range 50 {
			body := fmt.Sprintf(`{"prompt": "a paper boat %d"}`, i)
			counts := []string{"0", "1"}
			if i%2 == 1 {
				slices.Reverse(counts)
			}
			ids := make([]string, 2)
			var sent sync.WaitGroup
			for n, each := range counts {
				sent.Go(func() { ids[n] = d.create(t, body, count, each) })
			}
			sent.Wait()

			require.Equal(t, ids[0], ids[1], body)
		}
		require.Equal(t, 50, d.Count(t, "jobs"))
		d.RequireInvariants(t)
	})

	t.Run("IsNotARequestSentTwiceOnPurpose", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		first := d.create(t, boat)
		for _, none := range []string{"0", "-1", "one", "99999999999999999999"} {
			require.NotEqual(t, first, d.create(t, boat, count, none), none)
		}
		require.NotEqual(t, first, d.create(t, `{"prompt": "a paper ship"}`, count, "1"))
		require.NotEqual(t, first, d.create(t, `{"prompt": "a paper boat", "seconds": "8"}`, count, "1"))
		require.NotEqual(t, first, d.create(t, `{"prompt": "a paper boat", "model": "sora-2-pro"}`, count, "1"))
		_, other, err := d.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: d.Account.ID, Role: access.RoleClient, Name: "another"})
		require.NoError(t, err)
		require.NotEqual(t, first, d.create(t, boat, count, "1", "Authorization", "Bearer "+other))
		require.Equal(t, 9, d.Count(t, "jobs"))
	})

	t.Run("ExpiresAfterFifteenMinutes", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		first := d.create(t, boat)
		d.Exec(t, "UPDATE videos SET created_at = created_at - interval '14 minutes'")
		require.Equal(t, first, d.create(t, boat, count, "1"))
		d.Exec(t, "UPDATE videos SET created_at = created_at - interval '2 minutes'")
		require.NotEqual(t, first, d.create(t, boat, count, "1"))
	})

	t.Run("OfTwoEqualRequestsReturnsEachJob", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		made := []string{d.create(t, boat), d.create(t, boat)}

		again := []string{d.create(t, boat, count, "1"), d.create(t, boat, count, "1")}
		third := []string{d.create(t, boat, count, "2"), d.create(t, boat, count, "2")}

		require.ElementsMatch(t, made, again)
		require.ElementsMatch(t, made, third)
	})

	t.Run("WaitsUntilTheFirstIsWritten", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		held, err := d.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer held.Rollback()
		_, err = models.LockAccount(t.Context(), held, d.Account.ID)
		require.NoError(t, err)
		ids := make([]string, 3)
		var sent sync.WaitGroup
		for i, n := range []string{"0", "1", "2"} {
			sent.Go(func() { ids[i] = d.create(t, boat, count, n) })
			d.WaitForLocks(t, i+1)
		}

		require.NoError(t, held.Rollback())
		sent.Wait()

		require.Equal(t, []string{ids[0], ids[0], ids[0]}, ids)
		require.Equal(t, 1, d.Count(t, "jobs"))
		d.RequireInvariants(t)
	})

	t.Run("ThatOvertookTheFirstSharesItsJob", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		body, slow := io.Pipe()
		first := make(chan string, 1)
		go func() { first <- d.do(t, http.MethodPost, "/v1/videos", "application/json", body).Text }()
		_, err := slow.Write([]byte(boat[:5])) // the server has begun to read it
		require.NoError(t, err)
		d.until(t, func() bool { return d.calls.Load() == 1 })

		second := d.create(t, boat, count, "1")
		_, err = slow.Write([]byte(boat[5:]))
		require.NoError(t, err)
		require.NoError(t, slow.Close())

		require.Contains(t, <-first, second)
		require.Equal(t, 1, d.Count(t, "jobs"))
		require.NotEqual(t, second, d.create(t, boat), "it came once")
	})

	t.Run("CannotBeReconstructedFromTheDatabase", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		id := d.create(t, boat)
		_, secret, err := d.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: d.Account.ID, Role: access.RoleClient, Name: "another"})
		require.NoError(t, err)
		d.create(t, boat, "Authorization", "Bearer "+secret)

		var digests int
		require.NoError(t, d.DB.NewRaw("SELECT count(DISTINCT digest) FROM videos").Scan(t.Context(), &digests))

		require.Equal(t, 2, digests, "the same prompt under another secret")
		_, err = d.Canceller.Cancel(t.Context(), d.Client, jobID(t, id))
		require.NoError(t, err)
		_, err = d.Deleter.Delete(t.Context(), d.Client, jobID(t, id))
		require.NoError(t, err)
		require.Equal(t, 1, d.Count(t, "videos"), "it goes with what it was made of")
	})
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()

	t.Run("AlwaysReturnsTheFirstJob", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		first := d.create(t, boat, "Idempotency-Key", "one")
		d.Exec(t, "UPDATE videos SET created_at = created_at - interval '2 days'")

		require.Equal(t, first, d.create(t, boat, "Idempotency-Key", "one"))
		require.NotEqual(t, first, d.create(t, boat, "Idempotency-Key", "two"))
	})

	t.Run("RefusesADifferentRequestWithoutA409", func(t *testing.T) {
		t.Parallel()

		d := open(t)
		d.create(t, boat, "Idempotency-Key", "one")

		got := d.json(t, "/v1/videos", `{"prompt": "a paper ship"}`, "Idempotency-Key", "one")

		require.Equal(t, http.StatusBadRequest, got.Status)
		requireError(t, got, "invalid_request_error", "idempotency_key_reused", "Idempotency-Key")
		got = d.json(t, "/v1/videos", boat, "Idempotency-Key", strings.Repeat("k", 256))
		requireError(t, got, "invalid_request_error", "invalid_value", "Idempotency-Key")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/videos", strings.NewReader(boat))
		require.NoError(t, err)
		req.Header = http.Header{
			"Authorization": {"Bearer " + d.Secrets[access.RoleClient]}, "Content-Type": {"application/json"}, "Idempotency-Key": {"two", "two"},
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusBadRequest, res.StatusCode, "which of them counts?")
		require.Equal(t, 1, d.Count(t, "jobs"))
	})
}

// until waits for a condition that has no event.
func (d *desk) until(t *testing.T, holds func() bool) {
	t.Helper()
	testrun.Eventually(t, "the condition holds", holds)
}
