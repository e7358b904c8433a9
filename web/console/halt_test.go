package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

var _ = alsoPages(func(t *testing.T, b *browser) map[string]string {
	_, err := b.Operator.Halt(t.Context(), b.Admin, []models.HaltTarget{models.HaltSchedules},
		"averylongreasonwithoutanyplacetobreakitaveryverylongreason "+markup[:len(markup)-3])
	require.NoError(t, err)
	return map[string]string{"halt": "/system/halt"}
})

func TestHaltPage(t *testing.T) {
	t.Parallel()

	b := operator(t)
	after := func(path string, form url.Values) string {
		got := b.post(t, path, form)
		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		return b.get(t, "/system").Body
	}
	require.NotContains(t, b.get(t, "/jobs").Body, "are halted")

	for field, form := range map[string]url.Values{
		"reason": {"what": {"LEASES"}},
		"what":   {"reason": {"why"}, "what": {"EVERYTHING"}},
	} {
		refused := b.post(t, "/system/halt", form)
		require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
		require.Contains(t, refused.Body, `id="`+field+`-error"`)
	}
	require.Contains(t, after("/system/halt", url.Values{"what": {"SCHEDULES", "LEASES"}, "reason": {"<b>storage</b> moves"}}),
		"Halted schedules and leases.")

	for _, path := range []string{"/jobs", "/overview", "/system", "/nowhere"} {
		require.Regexp(t, `(?s)Schedules are halted.*&lt;b&gt;storage&lt;/b&gt; moves.*Resume schedules.*Leases are halted.*Resume leases`,
			b.get(t, path).Body, path)
	}
	require.Regexp(t, `(?s)Needs attention.*Leases are halted.*by test`, b.get(t, "/overview").Body)
	resumed := after("/system/resume", url.Values{"what": {"LEASES"}})
	require.Contains(t, resumed, "Resumed leases.")
	require.NotContains(t, resumed, "Leases are halted")
	require.Contains(t, resumed, "Schedules are halted")

	require.Equal(t, http.StatusSeeOther, b.post(t, "/login", url.Values{"key": {b.Secrets[access.RoleViewer]}}).Status)
	require.Regexp(t, `<button type="submit"[^>]* disabled[^>]*>Resume schedules`, b.get(t, "/jobs").Body)
	require.Equal(t, http.StatusForbidden, b.post(t, "/system/resume", url.Values{"what": {"SCHEDULES"}}).Status)
}
