package limit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/graph/limit"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// maxRefusalCPU is the maximum cost of refusing a query of at most 16 kB.
const maxRefusalCPU = 50 * time.Millisecond * limit.RaceFactor

// maxLongWords is the maximum cost of refusing a request of a megabyte, as a multiple of the cost
// of decoding its JSON in the same moment. A limit in seconds would depend on the machine.
const maxLongWords = 20

// threadCPU is the processor time of this thread, without that of parallel work.
func threadCPU(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used))
	return time.Duration(used.Nano())
}

func TestRefusalIsCheap(t *testing.T) {
	// Not parallel: a garbage collection caused by other tests would be counted here.
	served := graph.New(&graph.Resolver{}, &auth.KeyWatch{Authenticate: func(context.Context, string) (jobs.Principal, error) {
		return jobs.Principal{Role: access.RoleClient}, nil
	}}, graph.Options{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, query := range limit.Hostile {
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
			if want := limit.CodeOf(name); want != "" {
				var refused struct {
					Data   json.RawMessage
					Errors []struct{ Extensions struct{ Code apierror.Code } }
				}
				require.NoError(t, json.Unmarshal([]byte(answer), &refused))
				require.Nil(t, refused.Data, "nothing ran")
				require.NotEmpty(t, refused.Errors)
				for _, e := range refused.Errors { // a query that ran would be INTERNAL, because there is no domain
					require.Equal(t, want, e.Extensions.Code, answer)
				}
			}
		})
	}
}

// TestLongWords covers requests of a megabyte that are refused because of one word.
func TestLongWords(t *testing.T) {
	// Not parallel: a garbage collection caused by other tests would be counted here.
	served := graph.New(&graph.Resolver{Reads: &query.Reads{Shares: query.NewShares(1, 1)}},
		&auth.KeyWatch{Authenticate: func(context.Context, string) (jobs.Principal, error) {
			return jobs.Principal{Role: access.RoleClient}, nil
		}}, graph.Options{})
	long := strings.Repeat("statu", 200_000)
	many := func(before, after string) string {
		var b strings.Builder
		for i := range 480 {
			fmt.Fprintf(&b, "%s%d%s%s ", before, i, long[:2000], after)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ query, variables string }{
		"a field":             {query: `{job(id:"x"){` + long + `}}`},
		"many fields":         {query: `{job(id:"x"){` + many("a", "") + `}}`},
		"an alias":            {query: `{` + long + `:nothing}`},
		"many aliases":        {query: `{` + many("a", ":nothing") + `}`},
		"an argument":         {query: `{job(` + long + `:1){id}}`},
		"an input's field":    {query: `{jobs(filter:{` + long + `:1}){totalCount}}`},
		"an enum's value":     {query: `{jobs(filter:{status:` + long + `}){totalCount}}`},
		"a text as an enum":   {query: `{jobs(filter:{status:"` + long + `"}){totalCount}}`},
		"many such texts":     {query: `{jobs(filter:{status:[` + many(`"`, `"`) + `]}){totalCount}}`},
		"a block as an enum":  {query: `{jobs(filter:{status:[QUEUED,"""` + long + `"""]}){totalCount}}`},
		"an enum's default":   {query: `query($a:[JobStatus!]="` + long + `"){jobs(filter:{status:$a}){totalCount}}`},
		"a fragment's enum":   {query: `{...F} fragment F on Query{jobs(filter:{status:"` + long + `"}){totalCount}}`},
		"a block as a number": {query: `{jobs(first:"""` + long + `"""){totalCount}}`},
		"a number":            {query: `{jobs(first:` + strings.Repeat("1", 1_000_000) + `){totalCount}}`},
		"a type":              {query: `{...on ` + long + `{id}}`},
		"a variable's type":   {query: `query($a:` + long + `){viewer{role}}`},
		"a variable":          {query: `query($a:Int){jobs(first:$` + long + `){totalCount}}`},
		"a directive":         {query: `{viewer{role @` + long + `}}`},
		"a fragment":          {query: `{...` + long + `}`},
		"an operation":        {query: `query ` + long + `{nothing}`},
		"no query":            {query: long},
		"no query, a text":    {query: `"` + long + `"`},
		"a comment":           {query: "#" + long + "\n{nothing}"},
		"a value":             {query: `query($a:[JobStatus!]){jobs(filter:{status:$a}){totalCount}}`, variables: `{"a":["` + long + `"]}`},
		"a value's field":     {query: `query($a:JobFilter){jobs(filter:$a){totalCount}}`, variables: `{"a":{"` + long + `":1}}`},
		"an ID as a number":   {query: `query($a:Int){jobs(first:$a){totalCount}}`, variables: `{"a":"` + long + `"}`},
		"an id":               {query: `{job(id:"` + long + `"){id}}`},
		"a cursor":            {query: `{jobs(after:"` + long + `"){totalCount}}`},
		"a date":              {query: `{jobs(filter:{createdAfter:"` + long + `"}){totalCount}}`},
	} {
		t.Run(name, func(t *testing.T) {
			request := map[string]any{"query": c.query}
			if c.variables != "" {
				request["variables"] = json.RawMessage(c.variables)
			}
			body, err := json.Marshal(request)
			require.NoError(t, err)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			least, decode, answer := time.Hour, time.Hour, ""
			for range 3 {
				begun := threadCPU(t)
				var decoded any
				require.NoError(t, json.Unmarshal(body, &decoded))
				decode = min(decode, threadCPU(t)-begun)

				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				begun = threadCPU(t)

				served.ServeHTTP(w, r)

				least = min(least, threadCPU(t)-begun)
				answer = w.Body.String()
			}

			t.Log(least, decode, float64(least)/float64(decode), len(answer), answer[:min(len(answer), 200)])
			require.Less(t, len(answer), 8<<10)
			require.Less(t, float64(least)/float64(decode), float64(maxLongWords))
			require.NotContains(t, answer, "INTERNAL")
		})
	}
}
