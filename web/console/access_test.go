package console

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/stretchr/testify/require"
)

// logInAs opens a console with the key of a role.
func logInAs(t *testing.T, b *browser, role access.Role) {
	t.Helper()
	got := b.post(t, "/login", url.Values{"key": {b.Secrets[role]}})
	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
}

func TestRoles(t *testing.T) {
	t.Parallel()

	for role, may := range map[access.Role]func(method string, r shell.Route) bool{
		access.RoleViewer:   func(method string, r shell.Route) bool { return (method == http.MethodGet || r.Own) && !r.Admin },
		access.RoleOperator: func(_ string, r shell.Route) bool { return !r.Admin },
		access.RoleAdmin:    func(string, shell.Route) bool { return true },
	} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()

			b := stranger(t)
			logInAs(t, b, role)
			job, worker := b.Submit(t), b.Worker(t, "one")
			b.SeedCatalogue(t)

			for request, route := range requests(t, b, job, worker.WorkerID) {
				method, path, _ := strings.Cut(request, " ")
				if route.Open || strings.HasSuffix(path, "/live") || may(method, route) && method == http.MethodPost {
					continue // streams do not end, and the tests of the actions perform them
				}
				got := b.request(t, method, path, nil, nil)
				if may(method, route) {
					require.NotEqual(t, http.StatusForbidden, got.Status, request)
				} else {
					require.Equal(t, http.StatusForbidden, got.Status, request)
					require.Contains(t, got.Body, "Your role is "+string(role), request)
				}
				require.Less(t, got.Status, 500, "%s: %s", request, got.Body)
			}
			require.Equal(t, models.JobQueued, b.Reload(t, job.ID).Status)
		})
	}

	t.Run("DoNotLetAViewerUseTheMonitor", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)
		logInAs(t, b, access.RoleViewer)

		require.Equal(t, http.StatusOK, b.get(t, "/asynqmon/api/queues").Status)
		require.Equal(t, http.StatusForbidden, b.request(t, http.MethodDelete, "/asynqmon/api/queues/pro", nil, nil).Status)
		require.Contains(t, b.get(t, "/jobs").Body, "Read-only")
	})
}

func TestForms(t *testing.T) {
	t.Parallel()

	t.Run("AllHaveAToken", func(t *testing.T) {
		t.Parallel()

		pages, err := filepath.Glob("*/*.templ")
		require.NoError(t, err)
		require.NotEmpty(t, pages)
		form := regexp.MustCompile(`<form\b[^>]*method="post"[^>]*>`)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, at := range form.FindAllIndex(text, -1) {
				if page == "access/login.templ" {
					continue // there is no session yet
				}
				require.Regexp(t, `^\s*@(shell\.)?FormToken\(\)`, string(text[at[1]:]), "%s: %s needs @shell.FormToken() as its first child", page,
					text[at[0]:at[1]])
			}
		}
	})

	t.Run("AreRefusedWithoutTheTokenOfTheirSession", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		job := b.Submit(t)
		for name, token := range map[string]string{"none": "", "another session's": shell.NewFormToken("another"), "no token": "shared"} {
			got := b.post(t, "/jobs/"+string(job.ID)+"/cancel", url.Values{"csrf": {token}})
			require.Equal(t, http.StatusForbidden, got.Status, name)
			require.Contains(t, got.Body, "This form belongs to another login", name)
		}
		require.Equal(t, models.JobQueued, b.Reload(t, job.ID).Status)
		require.Equal(t, http.StatusSeeOther, b.post(t, "/jobs/"+string(job.ID)+"/cancel", nil).Status)
	})
}
