package rest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/features/auth"
	reads "github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/rest"
	"github.com/stretchr/testify/require"
)

// postWorkflow returns what posts a body of a length to an API without a domain, with the id of
// an account as the key.
func postWorkflow(t *testing.T, large *httpguard.LargeBodies) func(account string, body io.Reader,
	length int64) *httptest.ResponseRecorder {
	keys := &auth.KeyWatch{Authenticate: func(_ context.Context, secret string) (jobs.Principal, error) {
		return jobs.Principal{AccountID: models.AccountID(secret), Role: access.RoleClient}, nil
	}}
	api := rest.New(rest.Config{Large: large, Keys: keys, Reads: &reads.Reads{}})
	return func(account string, body io.Reader, length int64) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/workflows", body)
		r.Header = http.Header{"Authorization": {"Bearer " + account}, "Content-Type": {"application/json"}}
		r.ContentLength = length
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}
}

func TestSlowUploads_DoNotDelayOtherAccounts(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		post := postWorkflow(t, httpguard.NewLargeBodies(3, 2, 5*time.Second))
		slow, stop := io.Pipe()
		for range 2 {
			go post("slow", slow, 8_000_000)
		}
		synctest.Wait()

		refused := post("slow", slow, 8_000_000)
		got := post("other", strings.NewReader("no JSON"), 8_000_000)

		require.Equal(t, http.StatusServiceUnavailable, refused.Code, refused.Body)
		require.Equal(t, "2", refused.Header().Get("Retry-After"))
		require.Equal(t, http.StatusBadRequest, got.Code, got.Body)
		require.NoError(t, stop.Close())
	})
}

func TestLargeWorkflows_NeedALength(t *testing.T) {
	t.Parallel()
	post := postWorkflow(t, httpguard.NewLargeBodies(1, 1, time.Second))
	for length, want := range map[int64]string{
		-1:                      "1024 KiB. A workflow may have 8192 KiB if its size is known: send it with a Content-Length.",
		httpguard.LargeBody + 1: "8192 KiB.",
	} {
		got := post("any", strings.NewReader(strings.Repeat(" ", httpguard.LargeBody+1)), length)

		require.Equal(t, http.StatusRequestEntityTooLarge, got.Code)
		require.Contains(t, got.Body.String(), `"The body is larger than `+want+`"`)
	}
}
