package videoengine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/videoengine"
	"github.com/stretchr/testify/require"
)

func TestParseSettings(t *testing.T) {
	t.Parallel()

	t.Run("FillsInTheProfile", func(t *testing.T) {
		t.Parallel()
		settings, err := videoengine.ParseSettings(json.RawMessage(
			`{"profile": "sglang", "fields": {"steps": "", "shift": "flow_shift"}, "fixed": {"enhance_prompt": false}}`), []string{"steps",
			"shift"})
		require.NoError(t, err)
		require.Equal(t, videoengine.Form, settings.Request)
		require.False(t, settings.Aborts())
		require.Equal(t, "", settings.Fields["steps"])
		require.Equal(t, "flow_shift", settings.Fields["shift"])
		require.Equal(t, "negative_prompt", settings.Fields["negativePrompt"])
	})

	t.Run("NeedsNone", func(t *testing.T) {
		t.Parallel()
		settings, err := videoengine.ParseSettings(nil, nil)
		require.NoError(t, err)
		require.Equal(t, "openai", settings.Profile)
	})

	for name, test := range map[string]struct{ settings, place, says string }{
		"AnUnknownField":      {`{"profil": "openai"}`, "", `settings have no field "profil"`},
		"AWrongType":          {`{"model": 3}`, ".model", "must not be a JSON number"},
		"AnUnknownProfile":    {`{"profile": "sora"}`, ".profile", "the profiles are openai, vllm-omni, sglang and reelay"},
		"ALongModel":          {`{"model": "` + strings.Repeat("x", 201) + `"}`, ".model", "over 200 bytes"},
		"AnUnknownForm":       {`{"request": "xml"}`, ".request", "must be form or json"},
		"AnUnknownCancel":     {`{"cancel": "stop"}`, ".cancel", "cancel is"},
		"AFieldOfNoParameter": {`{"fields": {"stepz": "steps"}}`, ".fields", `"stepz", which is no parameter`},
		"AFieldWithCapitals":  {`{"fields": {"steps": "Steps"}}`, ".fields.steps", "fields have lower-case letters"},
		"AModelOfTheCustomer": {`{"fields": {"steps": "model"}}`, ".fields.steps", "no request may name files"},
		"AFixedPath":          {`{"fixed": {"video_path": "/x"}}`, ".fixed", "no request may name files"},
		"AFixedAddress":       {`{"fixed": {"reference_url": "http://x"}}`, ".fixed", "no request may name files"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			_, err := videoengine.ParseSettings(json.RawMessage(test.settings), []string{"steps"})
			require.ErrorContains(t, err, test.says)
			var problem *engine.Problem
			require.ErrorAs(t, err, &problem)
			require.Equal(t, test.place, problem.Place)
		})
	}
}
