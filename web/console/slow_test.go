package console

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// A browser that opens a live page and never reads is cut off, and leaves nothing behind.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	tidy, left := jobstest.Tidy(t, httpguard.New(New(configure(s)), func(*http.Request) httpguard.Limits {
		return httpguard.Limits{Write: time.Second}
	}))
	server := jobstest.ServeNarrow(t, tidy)
	client := server.Client()
	client.Transport.(*http.Transport).DisableCompression = true // else all events fit into the buffers
	var err error
	client.Jar, err = cookiejar.New(nil)
	require.NoError(t, err)
	login, err := client.PostForm(server.URL+"/login", url.Values{"key": {s.Secrets[access.RoleOperator]}})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, login.Body)
	require.NoError(t, err)
	require.NoError(t, login.Body.Close())
	job, followers := s.Submit(t), s.Watcher.Notifications.(*jobstest.Notifications).Followers
	s.Happen(t, job.ID, 400)

	live, err := client.Get(server.URL + "/jobs/" + string(job.ID) + "/live")
	require.NoError(t, err)
	defer live.Body.Close()
	require.Equal(t, http.StatusOK, live.StatusCode)

	testrun.Eventually(t, "it was cut off", func() bool { return followers() == 0 })
	left()
	_, err = io.ReadAll(live.Body)
	require.Error(t, err)
}
