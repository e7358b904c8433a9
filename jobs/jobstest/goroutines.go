package jobstest

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// servers matches the packages whose goroutines belong to one request. Goroutines of stores
// and those shared by requests do not match.
var servers = regexp.MustCompile(`reelay/reelay/(graph|web|internal/sse|internal/httpguard|adapters/blob)|99designs/gqlgen`)

// Tidy serves handler, and fails the test if a goroutine of a request still runs after its
// handler has returned. Call left when all requests have ended.
func Tidy(t testing.TB, handler http.Handler) (tidy http.Handler, left func()) {
	id := uuid.NewString()
	tidy = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pprof.Do(r.Context(), pprof.Labels("tidy", id), func(context.Context) { handler.ServeHTTP(w, r) })
	})
	return tidy, func() {
		t.Helper()
		var stacks string
		require.Eventually(t, func() bool {
			stacks = goroutinesOf(t, id)
			return stacks == ""
		}, 30*time.Second, 10*time.Millisecond, "goroutines of a request are left")
	}
}

// goroutinesOf returns the stacks of the goroutines that descend from the labelled one.
func goroutinesOf(t testing.TB, id string) string {
	t.Helper()
	var all bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
	var found []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, id) && servers.MatchString(stack) {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}
