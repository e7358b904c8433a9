package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/stretchr/testify/require"
)

// linkOf returns the path of the link to the node pick of a workflow.
func (b *browser) linkOf(t *testing.T, w *models.Workflow) string {
	t.Helper()
	edges, err := b.Reads.Workflows.Of(jobs.Host, w)
	require.NoError(t, err)
	found, err := edges.Question(t.Context(), "pick")
	require.NoError(t, err)
	return string(found.Link)
}

func TestAnswers(t *testing.T) {
	t.Parallel()

	t.Run("OnTheWorkflowsPage", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		film := b.AskApproval(t, b.Client)
		path := address.Workflow(film.ID) + "/answer"
		page := b.page(t, address.Workflow(film.ID))
		require.Contains(t, page, "Approve or reject…")
		require.Contains(t, page, "Waits for an answer until")
		page = b.page(t, path+"?key=pick")
		require.Contains(t, page, "Which fog?")
		require.Equal(t, 2, strings.Count(page, "<video"))

		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, path, url.Values{"key": {"pick"}}).Status)
		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, path, url.Values{"key": {"pick"}, "pick": {"c"}}).Status)
		require.Equal(t, http.StatusNotFound, b.post(t, path, url.Values{"key": {"none"}, "pick": {"a"}}).Status)
		require.Equal(t, http.StatusNotFound, b.get(t, path+"?key=a").Status)
		require.Equal(t, http.StatusNotFound, b.get(t, path+"?key=%00").Status)

		require.Equal(t, http.StatusSeeOther, b.post(t, path, url.Values{"key": {"pick"}, "pick": {"b"}}).Status)
		require.Contains(t, b.page(t, address.Workflow(film.ID)), "is answered")
		require.Contains(t, b.page(t, path+"?key=pick"), "Approved by ")
		b.RequireInvariants(t)
	})

	t.Run("ByALinkWithoutALogin", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		film := b.AskApproval(t, b.Client)
		link := b.linkOf(t, film)
		stranger := serve(t, b.Stack, configure(b.Stack))

		page := stranger.page(t, link)
		require.Contains(t, page, "Which fog?")
		require.Equal(t, 2, strings.Count(page, "<video"))
		require.Equal(t, http.StatusUnprocessableEntity, stranger.post(t, link, url.Values{"pick": {"c"}}).Status)
		answered := stranger.post(t, link, url.Values{"pick": {"b"}, "note": {"nicer"}})
		require.Equal(t, http.StatusOK, answered.Status)
		require.Contains(t, answered.Body, "Approved by the link: b.")
		require.Contains(t, answered.Body, "nicer")
		require.Equal(t, http.StatusConflict, stranger.post(t, link, url.Values{"reject": {"1"}}).Status, "used twice")
		require.NotContains(t, stranger.page(t, link), "<video", "a used link shows no videos")
		var by string
		require.NoError(t, b.DB.NewRaw("SELECT payload ->> 'by' FROM audit_log WHERE action = 'approveWorkflowJob'").Scan(t.Context(), &by))
		require.Equal(t, "the link", by)
		b.RequireInvariants(t)
	})

	t.Run("PicksADraftThatIsContinued", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		film := b.AskPick(t, b.Client)
		link := b.linkOf(t, film)
		stranger := serve(t, b.Stack, configure(b.Stack))
		page := stranger.page(t, link)
		require.Equal(t, 2, strings.Count(page, `"Candidate `), "the previews are side by side")
		require.Equal(t, 2, strings.Count(page, ">Pick</button>"))
		require.NotContains(t, page, ">Approve</button>")
		b.Exec(t, `UPDATE jobs SET kept_until = clock_timestamp() - interval '1 minute'
			WHERE id = (SELECT job_id FROM workflow_nodes WHERE key = 'a')`)
		page = stranger.page(t, link)
		require.Equal(t, 1, strings.Count(page, ">Pick</button>"))
		require.Contains(t, page, "cannot be continued")
		refused := stranger.post(t, link, url.Values{"pick": {"a"}})
		require.Equal(t, http.StatusConflict, refused.Status)
		require.Contains(t, refused.Body, "no longer kept")
		require.Equal(t, http.StatusOK, stranger.post(t, link, url.Values{"pick": {"b"}}).Status)
		require.Equal(t, http.StatusConflict, stranger.post(t, link, url.Values{"pick": {"a"}}).Status, "picked twice")
		b.RequireInvariants(t)
	})

	t.Run("ByLinksThatAreNotValid", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		film := b.AskApproval(t, b.Client)
		other := b.AskApproval(t, b.Client)
		link, foreign := b.linkOf(t, film), b.linkOf(t, other)
		mac := link[strings.LastIndexByte(link, '.'):]
		stranger := serve(t, b.Stack, configure(b.Stack))
		for name, altered := range map[string]string{
			"of another node": foreign[:strings.LastIndexByte(foreign, '.')] + mac, "cut": strings.TrimSuffix(link, mac),
			"another run": strings.Replace(link, ".1.", ".2.", 1), "longer": strings.Replace(link, mac, "0"+mac, 1),
			"junk": "/approve/x", "dots": "/approve/...", "no base64": "/approve/a.b.c.%21",
		} {
			require.Equal(t, http.StatusNotFound, stranger.get(t, altered).Status, name)
			require.Equal(t, http.StatusNotFound, stranger.post(t, altered, url.Values{"pick": {"a"}}).Status, name)
		}

		b.Exec(t, "UPDATE approvals SET expires_at = clock_timestamp() - interval '1 second'")
		expired := b.linkOf(t, film)
		require.Contains(t, stranger.page(t, expired), "This link has expired.")
		require.Equal(t, http.StatusConflict, stranger.post(t, expired, url.Values{"pick": {"a"}}).Status)
		_, err := b.Workflows.Cancel(t.Context(), b.Client, other.ID, "")
		require.NoError(t, err)
		require.Contains(t, stranger.page(t, foreign), "CANCELLED")
		require.Equal(t, http.StatusConflict, stranger.post(t, foreign, url.Values{"pick": {"a"}}).Status)
	})
}
