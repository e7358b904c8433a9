package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestAlerts(t *testing.T) {
	t.Parallel()

	t.Run("AreAcknowledgedOnce", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		require.Contains(t, b.get(t, "/alerts").Body, "Nothing fires.")
		id := b.FireAlert(t)

		page := b.get(t, "/alerts").Body
		require.Contains(t, page, "250 jobs wait (limit 200).")
		require.Contains(t, page, `href="/alerts/rules/queue-depth"`)
		for range 2 { // a double click
			require.Equal(t, http.StatusSeeOther, b.post(t, "/alerts/"+string(id)+"/acknowledge", nil).Status)
		}

		page = b.get(t, "/alerts").Body
		require.Contains(t, page, "acknowledged")
		require.NotContains(t, page, "nobody yet")
		require.Contains(t, b.get(t, "/alerts?history=1").Body, "250 jobs wait")
		require.Equal(t, http.StatusNotFound, b.post(t, "/alerts/"+string(models.NewAlertID())+"/acknowledge", nil).Status)
	})

	t.Run("AreSilencedWithAReason", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		require.Contains(t, b.get(t, "/alerts/silence?rule=queue-depth").Body, `value="queue-depth" selected`)
		form := url.Values{"rule": {"queue-depth"}, "minutes": {"0"}, "reason": {"<script>alert(1)</script>"}}
		refused := b.post(t, "/alerts/silence", form)
		require.Equal(t, http.StatusUnprocessableEntity, refused.Status)
		require.Contains(t, refused.Body, "minutes must be from 1 to 43200.")
		require.Contains(t, refused.Body, "&lt;script&gt;alert(1)", "what was typed stays")

		form.Set("minutes", "5")
		require.Equal(t, http.StatusSeeOther, b.post(t, "/alerts/silence", form).Status)

		page := b.get(t, "/alerts").Body
		require.Contains(t, page, "Silenced: queue-depth")
		require.NotContains(t, page, "<script>alert")
		_, after, _ := strings.Cut(page, `action="/alerts/silence/`)
		path, _, _ := strings.Cut(after, `"`)
		require.Equal(t, http.StatusSeeOther, b.post(t, "/alerts/silence/"+path, nil).Status)
		require.NotContains(t, b.get(t, "/alerts").Body, "Silenced: ")
	})

	t.Run("HaveARunbookPerRule", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		b.FireAlert(t)
		page := b.get(t, "/alerts/rules/queue-depth").Body
		require.Contains(t, page, "What to do")
		require.Contains(t, page, `<a href="/queues">/queues</a>`)
		require.Contains(t, page, "250 jobs wait")
		require.Equal(t, http.StatusNotFound, b.get(t, "/alerts/rules/none").Status)
	})

	t.Run("SayWhyATestFailed", func(t *testing.T) {
		t.Parallel()
		b := operator(t)
		require.Equal(t, http.StatusSeeOther, b.post(t, "/alerts/routes/nowhere/test", nil).Status)
		require.Contains(t, b.get(t, "/alerts").Body, "The test of nowhere failed: the call failed: ")
		require.Equal(t, http.StatusNotFound, b.post(t, "/alerts/routes/other/test", nil).Status)
	})
}
