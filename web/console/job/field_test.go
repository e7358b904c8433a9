package job

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchemaFields(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheSchemasOrderAndNumbers", func(t *testing.T) {
		t.Parallel()

		fields, err := schemaFields([]byte(`{"properties": {
			"fps": {"type": "integer"},
			"durationSeconds": {"type": "number"},
			"pace": {"title": "Work per second", "type": "number"},
			"zoomLevel": {"type": "number", "minimum": 0.5, "default": 2},
			"seed": {"type": "integer", "maximum": 9007199254740992},
			"layers": {"enum": [1, 2, "all"]},
			"loop": {"type": "boolean", "default": true},
			"clips": {"type": "array", "items": {"type": "string"}},
			"camera": {"type": "object"}}}`))

		require.NoError(t, err)
		require.Equal(t, []field{
			{Name: "params.fps", Label: "Frames per second", Type: "integer"},
			{Name: "params.durationSeconds", Label: "Duration in seconds", Type: "number"},
			{Name: "params.pace", Label: "Work per second", Type: "number"},
			{Name: "params.zoomLevel", Label: "Zoom level", Type: "number", Default: "2", Min: "0.5"},
			{Name: "params.seed", Label: "Seed", Type: "integer", Max: "9007199254740992"},
			{Name: "params.layers", Label: "Layers", Choices: []choice{{"1", []byte("1")}, {"2", []byte("2")}, {"all", []byte(`"all"`)}}},
			{Name: "params.loop", Label: "Loop", Type: "boolean", Default: "true",
				Choices: []choice{{"true", []byte("true")}, {"false", []byte("false")}}},
			{Name: "params.clips", Label: "Clips", Type: "list"},
			{Name: "params.camera", Label: "Camera", Type: "json"},
		}, fields)
	})

	t.Run("GivesValuesTheirType", func(t *testing.T) {
		t.Parallel()

		fields, err := schemaFields([]byte(`{"properties": {"n": {"type": "number"}, "layers": {"enum": [1, "all"]}, "loop": {"type": "boolean"}, "style": {"type": "string"}}}`))
		require.NoError(t, err)

		params, problems := readParams(fields, url.Values{"params.n": {"1.50"}, "params.layers": {"1"}, "params.loop": {"true"},
			"params.style": {`a "b"`}})

		require.Empty(t, problems)
		require.JSONEq(t, `{"n": 1.50, "layers": 1, "loop": true, "style": "a \"b\""}`, string(params))
	})

	t.Run("ReadsListsAndJSON", func(t *testing.T) {
		t.Parallel()

		fields, err := schemaFields([]byte(`{"properties": {"clips": {"type": "array", "items": {"type": "string"}}, "headers": {"type": "object"}, "body": {}}}`))
		require.NoError(t, err)

		params, problems := readParams(fields, url.Values{"params.clips": {"job_1\r\n\r\n job 2 "}, "params.headers": {`{"a": "b"}`},
			"params.body": {`{`}})

		require.JSONEq(t, `{"clips": ["job_1", "job 2"], "headers": {"a": "b"}}`, string(params))
		require.Contains(t, problems["params.body"], "must be JSON")
		require.Len(t, problems, 1)
	})
}

func TestFieldHint(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("An id, such as art_…, or a URL. ", 5)
	for description, want := range map[string][2]string{
		"":                              {"", ""},
		"Short. Two sentences.":         {"Short. Two sentences.", ""},
		"The first image: " + long:      {"The first image.", strings.TrimSpace(long)},
		"The first image. " + long:      {"The first image.", strings.TrimSpace(long)},
		strings.Repeat("x", 200):        {strings.Repeat("x", 200), ""},
		strings.Repeat("x", 200) + ". ": {strings.Repeat("x", 200) + ".", ""},
	} {
		lead, rest := field{Description: description}.hint()
		require.Equal(t, want, [2]string{lead, rest}, description)
	}
}
