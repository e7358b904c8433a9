package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// maxRefusalCPU is what a query of at most 16 kB may cost before it is refused.
const maxRefusalCPU = 50 * time.Millisecond * raceFactor

// threadCPU is the processor time of this thread: what others do at the same time
// does not count.
func threadCPU(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used))
	return time.Duration(used.Nano())
}

func TestRefusalIsCheap(t *testing.T) {
	// Not parallel: a garbage collection for others would be counted here.
	served := New(&Resolver{}, &jobs.KeyWatch{Authenticate: func(context.Context, string) (jobs.Principal, error) {
		return jobs.Principal{Role: models.RoleClient}, nil
	}}, Options{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, query := range hostile {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(query), 16<<10)
			body, err := json.Marshal(map[string]string{"query": query})
			require.NoError(t, err)
			request := func() *http.Request {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", strings.NewReader(string(body)))
				r.Header.Set("Content-Type", "application/json")
				return r
			}
			least, answer := time.Hour, ""
			for range 3 {
				w := httptest.NewRecorder()
				runtime.LockOSThread()
				begun := threadCPU(t)
				served.ServeHTTP(w, request())
				least = min(least, threadCPU(t)-begun)
				runtime.UnlockOSThread()
				answer = w.Body.String()
			}
			t.Log(least, len(answer), answer[:min(len(answer), 150)])
			require.Less(t, least, maxRefusalCPU)
			require.Less(t, len(answer), 32<<10, "the answer")
			if want := codeOf(name); want != "" {
				var refused struct {
					Data   json.RawMessage
					Errors []struct{ Extensions struct{ Code jobs.Code } }
				}
				require.NoError(t, json.Unmarshal([]byte(answer), &refused))
				require.Nil(t, refused.Data, "nothing ran")
				require.NotEmpty(t, refused.Errors)
				for _, e := range refused.Errors { // one that ran would be INTERNAL: there is nothing to read from
					require.Equal(t, want, e.Extensions.Code, answer)
				}
			}
		})
	}
}
