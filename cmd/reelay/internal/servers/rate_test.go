package servers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// TestHandler_RefusesFastSubmits covers an account that has used up its submits of a minute:
// every API refuses the next one, and says when to retry.
func TestHandler_RefusesFastSubmits(t *testing.T) {
	t.Parallel()
	s := newStrained(t)
	handler := s.handler("http://127.0.0.1:8080")
	const graphql = `{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"fog\"}) { job { id } } }"}`
	doors := map[string]struct {
		path, body string
		status     int
		code       string // contained in the response
	}{
		"GraphQL": {"/graphql", graphql, http.StatusOK, `"code":"RATE_LIMITED"`},
		"films":   {"/api/video-generations", `{"prompt": "fog"}`, http.StatusTooManyRequests, `"code":"RATE_LIMITED"`},
		"jobs":    {"/api/v1/jobs", `{"payload": {"prompt": "fog"}}`, http.StatusTooManyRequests, `"code":"RATE_LIMITED"`},
		"Videos":  {"/v1/videos", `{"prompt": "fog", "model": "testcard"}`, http.StatusTooManyRequests, `"code":"rate_limit_exceeded"`},
	}
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			account := jobs.NewAccount(name, models.TierPro)
			account.SubmitsPerMinute = 1
			require.NoError(t, models.InsertAccount(t.Context(), s.db, account))
			_, key, err := s.keys().Create(t.Context(), jobs.Host, auth.NewKey{AccountID: account.ID, Role: access.RoleClient, Name: "test"})
			require.NoError(t, err)
			sendJob := func() *httptest.ResponseRecorder {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, door.path, strings.NewReader(door.body))
				request.Header.Set("Authorization", "Bearer "+key)
				request.Header.Set("Content-Type", "application/json")
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, request)
				return answer
			}

			first, second := sendJob(), sendJob()

			require.Less(t, first.Code, 300, first.Body)
			require.NotContains(t, first.Body.String(), `"errors"`)
			require.Equal(t, door.status, second.Code, second.Body)
			require.Contains(t, second.Body.String(), door.code)
			after, err := strconv.Atoi(second.Header().Get("Retry-After"))
			require.NoError(t, err)
			require.Positive(t, after)
			require.LessOrEqual(t, after, 60)
			if name == "GraphQL" {
				var shown struct {
					Errors []struct {
						Extensions struct{ RetryAfterSeconds int }
					}
				}
				require.NoError(t, json.Unmarshal(second.Body.Bytes(), &shown))
				require.Equal(t, after, shown.Errors[0].Extensions.RetryAfterSeconds)
			}
		})
	}
}
