package videos_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/videos"
	"github.com/stretchr/testify/require"
)

func TestSlowUploads_DoNotDelayOtherAccounts(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		api := videos.New(videos.Config{Authenticate: func(_ context.Context, secret string) (jobs.Principal, error) {
			return jobs.Principal{AccountID: models.AccountID(secret), Role: access.RoleClient}, nil
		}})
		post := func(ctx context.Context, account string, body io.Reader) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/videos", body)
			r.Header = http.Header{"Authorization": {"Bearer " + account}, "Content-Type": {"application/json"}}
			r.ContentLength = -1 // it may be large
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			return w
		}
		slow, stop := io.Pipe()
		for range 20 {
			go post(t.Context(), "slow", slow)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		got := post(ctx, "other", strings.NewReader("no JSON"))

		require.Equal(t, http.StatusBadRequest, got.Code, got.Body)
		require.NoError(t, stop.Close())
	})
}
