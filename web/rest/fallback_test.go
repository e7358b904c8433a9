package rest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestFallback(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.AddTwins(t, "a", "b", "c", "d", "e", "f")
	a.AddTwin(t, "secret", func(m *catalogue.Model) { m.Accounts = []models.AccountID{models.NewAccountID()} })
	a.AddTwin(t, "still", func(m *catalogue.Model) { m.Produces = catalogue.ProducesImage })
	job := func(fallback any) answer {
		return a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "a fox"}, "fallback": fallback})
	}
	payload := func(fallback any) answer {
		return a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "a fox", "fallback": fallback}})
	}
	video := func(fallback any) answer { return a.post(t, generate, asked(map[string]any{"fallback": fallback})) }

	for name, c := range map[string]struct {
		fallback any
		says     string
	}{
		"its own model":    {[]string{"a", "testcard"}, "fallback names testcard, the job's own model"},
		"a name twice":     {[]string{"a", "a"}, "fallback names a twice"},
		"an unknown model": {[]string{"sora-9"}, "fallback names sora-9. There is no model"},
		"1,000 names":      {slices.Repeat([]string{"a"}, 1000), "fallback may name 5 models; it names 1000"},
		"of others":        {[]string{"secret"}, "fallback names secret. There is no model"},
		"another result":   {[]string{"still"}, "The model still, which fallback names, refuses the job"},
	} {
		for door, submit := range map[string]func(any) answer{"jobs": job, "generate": video, "payload": payload} {
			got := submit(c.fallback)

			require.Equal(t, http.StatusUnprocessableEntity, got.status, "%s by %s: %s", name, door, got.raw)
			require.Equal(t, "INVALID_INPUT fallback", got.code(), "%s by %s: %s", name, door, got.raw)
			require.Contains(t, got.body["detail"], c.says, "%s by %s", name, door)
			require.Less(t, len(got.raw), 2000)
		}
	}
	for _, wrong := range []any{"a", 1, []int{1}, map[string]any{"a": 1}} {
		require.Equal(t, http.StatusUnprocessableEntity, job(wrong).status, wrong)
		got := payload(wrong)
		require.Equal(t, "INVALID_INPUT payload.fallback", got.code(), "%v: %s", wrong, got.raw)
	}
	require.Zero(t, a.Count(t, "jobs"))

	for _, submit := range []func(any) answer{job, payload} {
		got := submit([]string{"b", "a"})
		require.Equal(t, http.StatusCreated, got.status, got.raw)
		shown := a.get(t, work+"/"+got.body["job_id"].(string))
		require.Equal(t, []any{"b", "a"}, shown.body["fallback"], "the order is kept")
	}
	require.Equal(t, http.StatusAccepted, video([]string{"b"}).status)
}

func TestModels_ShowTheirFallback(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.AddTwins(t, "b")
	a.AddTwin(t, "secret", func(m *catalogue.Model) { m.Accounts = []models.AccountID{models.NewAccountID()} })
	a.AddTwin(t, "usual", func(m *catalogue.Model) { m.Fallback = []string{"secret", "b"} })

	got := a.get(t, "/api/v1/models")

	require.Equal(t, http.StatusOK, got.status, got.raw)
	lists := map[string]json.RawMessage{}
	for _, m := range got.body["models"].([]any) {
		model := m.(map[string]any)
		text, err := json.Marshal(model["fallback"])
		require.NoError(t, err)
		lists[model["name"].(string)] = text
	}
	require.JSONEq(t, `["b"]`, string(lists["usual"]))
	require.JSONEq(t, `[]`, string(lists["b"]))
}
