package rest_test

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"github.com/sv-tools/openapi"
)

var update = flag.Bool("update", false, "write openapi.json")

// document returns the OpenAPI document, which needs no key.
func document(t *testing.T, a *api) []byte {
	t.Helper()
	res := a.request(t, http.MethodGet, "/api/openapi.json", "", http.Header{"Authorization": nil})
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return raw
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	raw := document(t, a)
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", raw, 0o644))
	}
	var spec openapi.Extendable[openapi.OpenAPI]
	require.NoError(t, json.Unmarshal(raw, &spec))
	validator, err := openapi.NewValidator(&spec, openapi.AllowUndefinedTagsInOperation())
	require.NoError(t, err)

	t.Run("MatchesTheCommittedFile", func(t *testing.T) {
		t.Parallel()

		committed, err := os.ReadFile("openapi.json")
		require.NoError(t, err)
		require.Equal(t, string(committed), string(raw), "run: go test ./web/rest -run TestOpenAPI -update")
	})

	t.Run("IsValid", func(t *testing.T) {
		t.Parallel()

		require.Equal(t, "3.1.0", spec.Spec.OpenAPI)
		require.NoError(t, validator.ValidateSpec())
	})

	t.Run("LimitsTheTextOfEachParameter", func(t *testing.T) {
		t.Parallel()

		// A caller, or a program that tries the API, must learn from the document what is refused.
		for path, item := range spec.Spec.Paths.Spec.Paths {
			for _, operation := range []*openapi.Extendable[openapi.Operation]{item.Spec.Spec.Get, item.Spec.Spec.Post, item.Spec.Spec.Put,
				item.Spec.Spec.Delete} {
				if operation == nil {
					continue
				}
				for _, parameter := range operation.Spec.Parameters {
					name, schema := parameter.Spec.Spec.Name, parameter.Spec.Spec.Schema.Spec
					if name == "If-None-Match" || schema.Type == nil || !slices.Contains(*schema.Type, "string") {
						continue // any text is an entity tag that does not match
					}
					require.True(t, schema.Pattern != "" || schema.Format != "" || schema.MaxLength != nil || len(schema.Enum) > 0,
						"%s: %s takes any text", path, name)
				}
			}
		}
	})

	t.Run("HasExamplesThatWork", func(t *testing.T) {
		t.Parallel()

		tried := 0
		for path, item := range spec.Spec.Paths.Spec.Paths {
			if item.Spec.Spec.Post == nil || item.Spec.Spec.Post.Spec.RequestBody == nil {
				continue
			}
			for name, example := range item.Spec.Spec.Post.Spec.RequestBody.Spec.Spec.Content["application/json"].Spec.Examples {
				got := a.post(t, path, example.Spec.Spec.Value)
				require.Less(t, got.status, 300, "%s of %s: %s", name, path, got.raw)
				tried++
			}
		}
		require.Equal(t, 8, tried)
	})

	t.Run("DescribesTheActualResponses", func(t *testing.T) {
		t.Parallel()

		done := a.completed(t)
		id := string(done.ID)
		created := a.post(t, videos, map[string]any{"prompt": "x"})
		later := a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"}, "execute_at": time.Now().Add(time.Hour)})
		draft, _ := a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"},
			"draft": map[string]any{"steps": 6}}).body["job_id"].(string)
		answered := func(path, method string, status int, media string) string {
			return "#/paths/" + escape(path) + "/" + method + "/responses/" + strconv.Itoa(status) + "/content/" + escape(media) + "/schema"
		}
		require.Error(t, validator.ValidateData(answered(videos, "post", 202, "application/json"), map[string]any{"status": "queued"}))
		for _, c := range []struct {
			path, method string
			got          answer
		}{
			{videos, "post", created},
			{videos, "post", a.post(t, videos, map[string]any{"prompt": ""})},
			{videos + "/{id}", "get", a.get(t, videos+"/"+id)},
			{videos + "/{id}", "get", a.get(t, created.body["status_url"].(string)[len(a.Base):])},
			{videos + "/{id}", "get", a.get(t, videos+"/x")},
			{videos + "/{id}", "delete", a.ask(t, "DELETE", videos+"/"+id, "", nil)},
			{videos + "/{id}", "delete", a.ask(t, "DELETE", videos+"/"+created.body["job_id"].(string), "", nil)},
			{videos + "/{id}/events", "get", a.get(t, videos+"/"+id+"/events")},
			{videos + "/{id}/video", "get", a.get(t, videos+"/x/video")},
			{work, "post", a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"}})},
			{work, "post", later},
			{work + "/{id}", "get", a.get(t, work+"/"+draft)},
			{"/api/v1/generate", "post", a.post(t, "/api/v1/generate", map[string]any{"prompt": "x"})},
			{"/api/v1/generate", "post", a.post(t, "/api/v1/generate", map[string]any{"prompt": "x", "provider": "acme"})},
			{work + "/{id}/continue", "post", a.post(t, work+"/"+draft+"/continue", nil)},
			{videos, "get", a.get(t, videos)},
			{videos, "get", a.get(t, videos+"?status=x")},
			{work, "get", a.get(t, work)},
			{work, "get", a.get(t, work+"?limit=1")},
			{videos + "/estimate", "post", a.post(t, videos+"/estimate", map[string]any{"prompt": "x"})},
			{work + "/estimate", "post", a.post(t, work+"/estimate", map[string]any{"payload": map[string]any{"prompt": "x"}})},
			{work + "/estimate", "post", a.post(t, work+"/estimate", map[string]any{"payload": map[string]any{}})},
			{"/api/v1/drafts/usage", "get", a.get(t, "/api/v1/drafts/usage?days=7")},
			{"/api/v1/drafts/usage", "get", a.get(t, "/api/v1/drafts/usage?days=91")},
			{"/api/v1/costs", "get", a.get(t, "/api/v1/costs?by=user")},
			{"/api/v1/costs", "get", a.get(t, "/api/v1/costs?by=pool")},
			{"/api/v1/models", "get", a.get(t, "/api/v1/models")},
			{work + "/{id}", "get", a.get(t, work+"/"+id)},
			{work + "/{id}", "get", a.get(t, work+"/"+created.body["job_id"].(string))},
			{work + "/{id}", "delete", a.ask(t, "DELETE", work+"/"+id, "", nil)},
			{"/api/v1/queue/stats", "get", a.ask(t, "GET", "/api/v1/queue/stats", "", as(a.Secrets[access.RoleOperator]))},
			{"/api/v1/queue/stats", "get", a.get(t, "/api/v1/queue/stats")},
			{"/api/v1/overview", "get", a.ask(t, "GET", "/api/v1/overview", "", as(a.Secrets[access.RoleOperator]))},
		} {
			media := "application/json"
			if c.got.status >= 400 {
				media = "application/problem+json"
			}
			at := answered(c.path, c.method, c.got.status, media)
			require.NoError(t, validator.ValidateData(at, any(c.got.body)), "%s %s: %s", c.method, c.path, c.got.raw)
		}
	})
}

func escape(part string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(part) }
