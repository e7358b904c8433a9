package servers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	spend "github.com/reelay/reelay/models/budgets"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestHandler_ShowsWhatReelayDidItself reads a job that no key has cancelled, but the pass of the budgets: through
// GraphQL, REST, the CLI and the console.
func TestHandler_ShowsWhatReelayDidItself(t *testing.T) {
	t.Parallel()
	s := newStrained(t)
	account := s.account(t, "spender", models.TierPro)
	key, operator := s.key(t, account, access.RoleClient), s.key(t, account, access.RoleOperator)
	spender := s.customer.WithKey(key)
	job, err := spender.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard", Prompt: new("a lighthouse in the fog")})
	require.NoError(t, err)
	id := job.Job.Id
	who, err := s.keys().Authenticate(t.Context(), operator)
	require.NoError(t, err)
	_, err = (&budget.Budgets{DB: s.db}).Set(t.Context(), who, budget.Input{AccountID: account, Period: spend.PerDay, AtLimit: spend.LimitCancels})
	require.NoError(t, err)
	_, err = (&pass.Purser{DB: s.db, Notifier: s.notifier}).Pass(t.Context())
	require.NoError(t, err)
	const why = "the budget of the account for a day ($0) is spent"

	found, err := spender.Job(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, client.JobStatusCancelled, found.Status)
	require.Equal(t, "reelay", found.Cancellation.By)
	require.Equal(t, why, *found.Cancellation.Reason)

	for _, path := range []string{"/api/v1/jobs/" + id, "/api/v1/jobs?status=CANCELLED"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.publicURL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		body := answerOf(t, http.DefaultClient, req)
		require.Contains(t, body, id)
	}

	for name, command := range map[string]*cobra.Command{
		"list": jobs.ListCommand(), "get": jobs.GetCommand(), "watch": jobs.WatchCommand(), "explain": jobs.ExplainCommand(), "events": jobs.EventsCommand(),
	} {
		var out strings.Builder
		args := []string{id, "--endpoint", s.publicURL, "--key", key}
		if name == "list" {
			args = args[1:]
		}
		command.SetArgs(args)
		command.SetOut(&out)
		command.SetErr(&out)
		err := command.ExecuteContext(t.Context())
		if name != "watch" { // its exit status is that of the job
			require.NoError(t, err, name)
		}
		require.NotContains(t, out.String()+fmt.Sprint(err), "internal error", name)
		if name != "list" {
			require.Contains(t, out.String()+fmt.Sprint(err), why, name)
		}
	}

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	answerOf(t, browser, loginRequest(t, s.publicURL, operator))
	page, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.publicURL+"/jobs/"+url.PathEscape(id), nil)
	require.NoError(t, err)
	shown := answerOf(t, browser, page)
	require.Contains(t, shown, "Cancelled by")
	require.Contains(t, shown, why)
}

// answerOf sends a request that must succeed, and returns the body of the answer.
func answerOf(t *testing.T, by *http.Client, req *http.Request) string {
	t.Helper()
	res, err := by.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(body))
	return string(body)
}
