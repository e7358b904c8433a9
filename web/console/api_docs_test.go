package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/stretchr/testify/require"
)

func TestAPIDocs(t *testing.T) {
	t.Parallel()

	document, err := os.ReadFile("../rest/openapi.json")
	require.NoError(t, err)
	config := configure(jobstest.New(t))
	config.OpenAPI = document
	w := httptest.NewRecorder()
	New(config).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://reelay.example/api/docs", nil))
	page := w.Body.String()

	t.Run("NeedsNoLoginAndLoadsNothingFromElsewhere", func(t *testing.T) {
		t.Parallel()

		require.Equal(t, http.StatusOK, w.Code)
		policy := w.Header().Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ")
		require.NotContains(t, policy, "unsafe")
		require.NotRegexp(t, `(?i)\sstyle=|\son[a-z]+=|<script>|<style|(src|href)="http`, page)
	})

	t.Run("ShowsEveryOperationFieldAndType", func(t *testing.T) {
		t.Parallel()

		var all struct {
			Paths map[string]map[string]struct {
				OperationID, Summary string
				Parameters           []struct{ Name string }
			}
			Components struct {
				Schemas map[string]struct{ Properties map[string]any }
			}
		}
		require.NoError(t, json.Unmarshal(document, &all))
		require.NotEmpty(t, all.Paths)
		for path, methods := range all.Paths {
			require.Contains(t, page, "<code>"+path+"</code>")
			for _, op := range methods {
				require.Contains(t, page, `<section class="card" id="`+op.OperationID+`"><h3>`)
				for _, parameter := range op.Parameters {
					require.Contains(t, page, "<code>"+parameter.Name+"</code>")
				}
			}
		}
		for name, schema := range all.Components.Schemas {
			require.Contains(t, page, `<section class="card" id="`+name+`"><h3>`)
			for property := range schema.Properties {
				require.Contains(t, page, "<code>"+property+"</code>")
			}
		}
		require.NotContains(t, page, ">Other<", "each operation belongs to a section of its own")
	})

	t.Run("HasNoDeadLinks", func(t *testing.T) {
		t.Parallel()

		links := regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1)
		require.NotEmpty(t, links)
		for _, link := range links {
			require.Contains(t, page, ` id="`+link[1]+`"`)
		}
	})

	t.Run("ShowsCallsForThisServer", func(t *testing.T) {
		t.Parallel()

		require.Contains(t, page, "API=http://reelay.example\n")
		require.Contains(t, page, "curl -sS -X DELETE &#34;$API/api/video-generations/$ID&#34;")
	})

	t.Run("IsLinkedFromEveryPage", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)
		for _, path := range []string{"/login", "/graphql", "/nowhere"} {
			require.Contains(t, b.get(t, path).Body, `href="/api/docs"`, path)
		}
	})
}
