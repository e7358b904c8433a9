package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

const ownModel = `models:
- name: own
  type: video.generate
  description: <b>bold</b>
  gpuTypes: [any]
  timeoutSeconds: 60
  gpuSecondsPerSecond: 1
  params: {type: object}
aliases:
- name: fast
  models: {own: 1}
`

// admin is a browser that is logged in with an ADMIN key.
func admin(t *testing.T) *browser {
	t.Helper()
	b := stranger(t)
	got := b.post(t, "/login", url.Values{"key": {b.Secrets[access.RoleAdmin]}})
	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
	return b
}

func TestModels(t *testing.T) {
	t.Parallel()

	t.Run("ShowTheirFallback", func(t *testing.T) {
		t.Parallel()
		b := admin(t)
		b.SeedCatalogue(t)
		source := strings.Replace(ownModel, "  params:", "  fallback: [testcard, later]\n  params:", 1)
		b.post(t, "/models/apply", url.Values{"source": {source}, "confirmed": {"yes"}})
		require.Contains(t, b.get(t, "/models/show/own").Body, "<dt>Fallback</dt><dd>testcard, later</dd>")
	})

	t.Run("AreCheckedAppliedShownAndRemoved", func(t *testing.T) {
		t.Parallel()
		b := admin(t)
		b.SeedCatalogue(t)

		checked := b.post(t, "/models/apply", url.Values{"source": {strings.ReplaceAll(ownModel, "\n", "\r\n")}})
		require.Equal(t, http.StatusOK, checked.Status)
		require.Contains(t, checked.Body, `<strong>own</strong>`)
		require.NotContains(t, b.get(t, "/models").Body, "/models/show/own")

		applied := b.post(t, "/models/apply", url.Values{"source": {ownModel}, "confirmed": {"yes"}})
		require.Equal(t, "/models", applied.Header.Get("Location"))
		list := b.get(t, "/models").Body
		require.Contains(t, list, "/models/show/own")
		require.Contains(t, list, "&lt;b&gt;bold&lt;/b&gt;")
		require.Contains(t, list, "own (weight 1)")

		again := b.post(t, "/models/apply", url.Values{"source": {ownModel}})
		require.Contains(t, again.Body, "The catalogue has these entries already.")
		b.post(t, "/models/apply", url.Values{"source": {strings.Replace(ownModel, "60", "90", 1)}, "confirmed": {"yes"}})
		require.Contains(t, b.get(t, "/models/show/own").Body, "90 s")
		old := b.get(t, "/models/show/own?version=1").Body
		require.Contains(t, old, "60 s")
		require.Contains(t, old, "Show version 2")

		require.Equal(t, http.StatusConflict, b.post(t, "/models/show/own/remove", nil).Status)
		require.Equal(t, "/models", b.post(t, "/models/show/fast/remove", nil).Header.Get("Location"))
		require.Equal(t, "/models", b.post(t, "/models/show/own/remove", nil).Header.Get("Location"))
		require.Contains(t, b.get(t, "/models/show/own?version=1").Body, "was removed from the catalogue")
		require.Equal(t, http.StatusNotFound, b.get(t, "/models/show/own").Status)
	})

	t.Run("ShowTheLineOfAProblem", func(t *testing.T) {
		t.Parallel()
		b := admin(t)

		got := b.post(t, "/models/apply", url.Values{"source": {"models: []\npools: []\n"}})

		require.Equal(t, http.StatusUnprocessableEntity, got.Status)
		require.Contains(t, got.Body, "models.yaml:2: unknown field &#34;pools&#34;")
	})

	t.Run("AreReadOnlyForOperators", func(t *testing.T) {
		t.Parallel()
		b := operator(t)

		require.NotContains(t, b.get(t, "/models").Body, "/models/apply")
		require.NotContains(t, b.get(t, "/models/show/testcard").Body, "/remove")
		require.Equal(t, http.StatusForbidden, b.get(t, "/models/apply").Status)
		require.Equal(t, http.StatusForbidden, b.post(t, "/models/apply", url.Values{"source": {ownModel}}).Status)
		require.Equal(t, http.StatusForbidden, b.post(t, "/models/show/drill/remove", nil).Status)
	})
}

func TestModelState(t *testing.T) {
	t.Parallel()
	b := admin(t)
	b.SeedCatalogue(t)
	state := func(name string) string {
		t.Helper()
		list, one := b.get(t, "/models").Body, b.get(t, "/models/show/"+name).Body
		for _, row := range strings.Split(list, "<tr>") {
			if strings.Contains(row, `/models/show/`+name+`"`) {
				found := regexp.MustCompile(`badge is-(\w+)"`).FindStringSubmatch(row)
				require.NotNil(t, found, row)
				require.Contains(t, one, found[0])
				return found[1]
			}
		}
		require.Contains(t, list, name)
		return ""
	}

	for _, name := range []string{"testcard", "ltx-video", "video.thumbnail"} {
		require.Equal(t, "not_served", state(name), "nothing asks for it")
	}
	pool := b.pool(t, "local", func(s *capacity.PoolSpec) { s.Models = []string{"video.thumbnail"} })
	require.Equal(t, "no_worker", state("video.thumbnail"), "a pool names it")
	require.Equal(t, "not_served", state("ltx-video"))
	b.Submit(t)
	require.Equal(t, "no_worker", state("testcard"), "a job waits for it")
	b.Worker(t, "one")
	require.Equal(t, "available", state("testcard"))
	b.Exec(t, "UPDATE pools SET deleted_at = now() WHERE id = ?", pool.ID)
	require.Equal(t, "not_served", state("video.thumbnail"), "its pool is deleted")
}
