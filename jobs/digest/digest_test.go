package digest_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/digest"
	"github.com/stretchr/testify/require"
)

// model returns a version of a model with parameters of many kinds.
func model(t *testing.T, version int) *catalogue.Model {
	t.Helper()
	file, err := catalogue.Parse("models.yaml", []byte(`
models:
  - name: m
    type: video.generate
    gpuTypes: [any]
    timeoutSeconds: 60
    gpuSecondsPerSecond: 1
    params:
      type: object
      additionalProperties: false
      properties:
        seed: { type: integer }
        steps: { type: integer, default: 20 }
        scale: { type: number, default: 7.5 }
        title: { type: string }
        deep: { type: object }
        image: { type: string, x-reelay-input: image }
        clips: { type: array, maxItems: 3, items: { type: string }, x-reelay-input: video }
`))
	require.NoError(t, err)
	m := file.Models[0]
	m.Version = version
	return m
}

const job = "job_019a0000-0000-7000-8000-000000000000"

func TestOf(t *testing.T) {
	t.Parallel()

	of := func(t *testing.T, prompt, params string) (string, []string) {
		t.Helper()
		m := model(t, 1)
		valid, err := m.Params(json.RawMessage(params))
		require.NoError(t, err)
		sum, refs := digest.Of(m, prompt, valid)
		return string(sum), refs
	}
	first, refs := of(t, "fog", `{"seed": 1, "deep": {"a": 1, "b": [0.5]}}`)
	require.Len(t, first, 32)
	require.Empty(t, refs)

	t.Run("IsEqualHoweverARequestIsWritten", func(t *testing.T) {
		t.Parallel()

		for _, params := range []string{
			`{"deep": {"b": [0.5], "a": 1}, "seed": 1}`,
			`{"seed": 1.0, "deep": {"a": 1e0, "b": [5e-1]}}`,
			`{"seed": 1, "steps": 20, "scale": 7.50, "deep": {"a": 1.0, "b": [0.50]}}`,
		} {
			again, _ := of(t, "fog", params)
			require.Equal(t, first, again, params)
		}
	})

	t.Run("DiffersWithTheRequest", func(t *testing.T) {
		t.Parallel()

		seen := map[string]string{first: "first"}
		for _, params := range []string{
			`{"seed": 2, "deep": {"a": 1, "b": [0.5]}}`, `{"seed": 1}`, `{"seed": 1, "steps": 21}`, `{"seed": 1, "scale": 7.51}`,
			`{"seed": 1, "title": "1"}`, `{"seed": 9007199254740993}`, `{"seed": 9007199254740992}`,
			`{"seed": 1, "image": "art_1"}`, `{"seed": 1, "image": "art_1", "title": "{{job_}}"}`, `{"seed": 1, "title": "{{job_}}"}`,
			`{"seed": 1, "clips": ["art_1"]}`, `{"seed": 1, "clips": ["art_1", "art_1"]}`, `{"seed": 1, "clips": []}`,
		} {
			sum, _ := of(t, "fog", params)
			require.NotContains(t, seen, sum, params)
			seen[sum] = params
		}
		other, _ := of(t, "fog ", `{"seed": 1}`)
		require.NotContains(t, seen, other)
		newer, _ := digest.Of(model(t, 2), "fog", json.RawMessage(`{"seed": 1}`))
		require.NotContains(t, seen, string(newer))
	})

	t.Run("DoesNotExistWithoutASeed", func(t *testing.T) {
		t.Parallel()

		for _, params := range []string{`{}`, `{"steps": 1}`} {
			sum, refs := of(t, "fog", params)
			require.Empty(t, sum)
			require.Empty(t, refs)
		}
		bad, _ := digest.Of(model(t, 1), "fog", json.RawMessage(`[]`))
		require.Nil(t, bad)
	})

	t.Run("CollectsWhatTheRequestNames", func(t *testing.T) {
		t.Parallel()

		prompt := "a {{" + job + ".output.text}} in fog"
		one, refs := of(t, prompt, `{"seed": 1, "image": "art_1.lastFrame", "clips": ["`+job+`", "https://example.com/a"], "title": "{{`+job+`.output}}"}`)
		two, _ := of(t, "a {{"+job+".output}} in fog", `{"seed": 1, "image": "art_2", "clips": ["art_3", "art_3"], "title": "{{`+job+`.output.x}}"}`)

		require.Equal(t, []string{job + ".output.text", job, "https://example.com/a", "art_1.lastFrame", job + ".output"}, refs)
		require.Equal(t, one, two)
		with := func(contents ...string) string { return string(digest.WithContents([]byte(one), contents)) }
		require.Equal(t, with("a", "b"), with("a", "b"))
		require.NotEqual(t, with("a", "b"), with("b", "a"))
		require.NotEqual(t, with("a", "b"), with("ab"))
		require.NotEqual(t, with("a", ""), with("a"))
	})
}
