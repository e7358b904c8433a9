package rest_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/rest"
	"github.com/stretchr/testify/require"
)

// TestSlowReader covers clients that open a stream and never read it.
func TestSlowReader(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	const events = 400 // far more than a narrow connection holds
	served := httpguard.New(rest.New(rest.Config{
		Keys:  &auth.KeyWatch{Authenticate: s.Keys.Authenticate, Most: 2},
		Reads: s.Reads, Watcher: s.Watcher,
	}), func(*http.Request) httpguard.Limits { return httpguard.Limits{Write: time.Second} })
	tidy, left := jobstest.Tidy(t, served)
	server := httptest.NewServer(served)
	t.Cleanup(server.Close)
	job, followers := s.Submit(t), s.Watcher.Notifications.(*jobstest.Notifications).Followers
	s.Happen(t, job.ID, events-1)
	follow := func(server *httptest.Server) *follower {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+videos+"/"+string(job.ID)+"/events", nil)
		require.NoError(t, err)
		req.Header = http.Header{"Accept": {"text/event-stream"}, "Authorization": {"Bearer " + s.Secrets[access.RoleClient]}}
		res, err := server.Client().Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { res.Body.Close() })
		return &follower{res, bufio.NewScanner(res.Body)}
	}

	reader, slow := follow(server), follow(jobstest.ServeNarrow(t, tidy))

	require.Equal(t, http.StatusOK, slow.StatusCode)
	requireNext := func(seq int) {
		e, ok := reader.next(t)
		require.True(t, ok)
		require.Equal(t, strconv.Itoa(seq), e.id)
	}
	for seq := range events {
		requireNext(seq + 1)
	}
	testrun.Eventually(t, "its place is free again", func() bool {
		another := follow(server)
		defer another.Body.Close()
		return another.StatusCode == http.StatusOK
	})
	s.Happen(t, job.ID, 1)
	requireNext(events + 1)
	heard, err := io.ReadAll(slow.Body)
	require.Error(t, err, "it was cut off")
	require.Contains(t, string(heard), "id: 1\n")
	require.NotContains(t, string(heard), "id: "+strconv.Itoa(events)+"\n")
	left()
	require.Equal(t, 2, followers(), "of the job, for all who follow it here, and of why it waits, for the stream that is left")
	require.NoError(t, reader.Body.Close())
	testrun.Eventually(t, "no follower is left", func() bool { return followers() == 0 })
}
