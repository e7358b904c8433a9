package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestChangesPage(t *testing.T) {
	t.Parallel()

	b := operator(t)
	_, err := b.Operator.PauseQueue(t.Context(), b.Admin, models.TierPro, "", "<script>alert(1)</script>")
	require.NoError(t, err)
	b.NewMember(t, "ana@example.com", access.RoleViewer)

	got := b.get(t, "/changes")
	require.Equal(t, http.StatusOK, got.Status)
	require.Contains(t, got.Body, "Pro lane paused")
	require.Contains(t, got.Body, "Member ana@example.com created")
	require.NotContains(t, got.Body, `href="/members/`, "an operator cannot open members")
	require.NotContains(t, got.Body, "<script>alert")
	require.NotContains(t, b.get(t, "/changes?kind=queue").Body, "ana@example.com")
	require.Contains(t, b.get(t, "/changes?until=2020-01-01").Body, "No changes match.")
	for _, wrong := range []string{"?kind=coffee", "?since=yesterday"} {
		require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/changes"+wrong).Status, wrong)
	}

	overview := b.get(t, "/overview").Body
	require.Contains(t, overview, "What changed</a>")
	require.Contains(t, overview, "Pro lane paused")
	require.Contains(t, overview, `/changes?since=`)
	require.Equal(t, 0, strings.Count(overview, `href="/audit`), "an operator gets no links to what only admins read")
	refused := b.get(t, "/audit")
	require.Equal(t, http.StatusForbidden, refused.Status)
	require.NotContains(t, refused.Body, `class="button" href="/audit`)
}
