package catalogue_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

// parsed returns a model with these properties of params, or why they are refused.
func parsed(properties string) (*catalogue.Model, error) {
	source, err := catalogue.Parse("models.json", fmt.Appendf(nil, `{"models": [{"name": "m", "type": "video.stitch", "gpuTypes": ["any"],
		"timeoutSeconds": 60, "gpuSecondsPerSecond": 1, "params": {"type": "object", "properties": {%s}}}]}`, properties))
	if err != nil {
		return nil, err
	}
	return source.Models[0], nil
}

func TestInputs(t *testing.T) {
	t.Parallel()

	t.Run("AreTheFilesThatParamsName", func(t *testing.T) {
		t.Parallel()

		m, err := parsed(`"z": {"type": "string", "x-reelay-input": ["audio", "video"]},
			"clips": {"type": "array", "maxItems": 3, "items": {"type": "string"}, "x-reelay-input": "video"},
			"title": {"type": "string"}`)
		require.NoError(t, err)
		image, video := []catalogue.InputKind{catalogue.InputImage}, []catalogue.InputKind{catalogue.InputVideo}
		both := []catalogue.InputKind{catalogue.InputAudio, catalogue.InputVideo}

		got := m.Inputs([]byte(`{"z": "art_1", "clips": ["job_1", "art_2"], "title": "art_3", "referenceImage": "https://a"}`))

		require.Equal(t, []catalogue.Input{
			{"referenceImage", image, "https://a"}, {"clips.0", video, "job_1"}, {"clips.1", video, "art_2"}, {"z", both, "art_1"},
		}, got)
		require.True(t, got[3].Accepts("video/mp4"))
		require.False(t, got[3].Accepts("image/png"))
		require.Empty(t, m.Inputs([]byte(`{"title": "z"}`)))
	})

	t.Run("OfAModelWithoutAnnotationsAreTheReferenceImage", func(t *testing.T) {
		t.Parallel()

		var gone *catalogue.Model
		m, err := parsed(`"referenceImage": {"type": "string"}`)
		require.NoError(t, err)
		for _, m := range []*catalogue.Model{m, gone} {
			require.Len(t, m.Inputs([]byte(`{"referenceImage": "art_1"}`)), 1)
			require.Empty(t, m.Inputs([]byte(`{"referenceImage": ""}`)))
			require.Empty(t, m.Inputs([]byte(`{"clips": ["art_1"]}`)))
		}
	})

	t.Run("AreRefusedIfTheAnnotationIsWrong", func(t *testing.T) {
		t.Parallel()

		for properties, reason := range map[string]string{
			`"a": {"type": "string", "x-reelay-input": "text"}`:                                               "it must be image, video or audio",
			`"a": {"type": "string", "x-reelay-input": 1}`:                                                    "it must be image, video or audio",
			`"a": {"type": "string", "x-reelay-input": []}`:                                                   "empty list",
			`"a": {"type": "string", "x-reelay-input": ["video", "video"]}`:                                   "or a list of them",
			`"a": {"type": "integer", "x-reelay-input": "video"}`:                                             "must have the type string",
			`"a": {"x-reelay-input": "video"}`:                                                                "must have the type string",
			`"a": {"type": "array", "maxItems": 3, "x-reelay-input": "video"}`:                                "must have the type string",
			`"a": {"type": "array", "items": {"type": "string"}, "x-reelay-input": "video"}`:                  "must have maxItems",
			`"a": {"type": "array", "items": {"type": "string"}, "maxItems": 101, "x-reelay-input": "video"}`: "from 1 to 100",
			`"a": {"type": "array", "maxItems": 3, "items": {"type": "string", "x-reelay-input": "video"}}`:   "not in parts of them",
			`"a": {"type": "object", "properties": {"b": {"type": "string", "x-reelay-input": "video"}}}`:     "not in parts of them",
		} {
			_, err := parsed(properties)
			require.ErrorContains(t, err, reason, properties)
		}
	})
}
