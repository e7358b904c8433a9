package cogengine_test

import (
	"encoding/json"
	"testing"

	"github.com/reelay/reelay/internal/cogengine"
	"github.com/reelay/reelay/internal/engine"
	"github.com/stretchr/testify/require"
)

func TestParseSettings(t *testing.T) {
	t.Parallel()

	t.Run("NeedsNone", func(t *testing.T) {
		t.Parallel()
		settings, err := cogengine.ParseSettings(nil, nil)
		require.NoError(t, err)
		require.Equal(t, "prompt", settings.Prompt)
	})

	t.Run("LeavesParametersOut", func(t *testing.T) {
		t.Parallel()
		settings, err := cogengine.ParseSettings(json.RawMessage(`{"prompt": "-", "inputs": {"steps": ""}, "fixed": {"n": 1}}`),
			[]string{"steps"})
		require.NoError(t, err)
		require.Equal(t, "-", settings.Prompt)
		require.Equal(t, json.Number("1"), settings.Fixed["n"])
	})

	for name, test := range map[string]struct{ settings, place, says string }{
		"AnUnknownField":      {`{"input": {}}`, "", `settings have no field "input"`},
		"AWrongType":          {`{"prompt": []}`, ".prompt", "must not be a JSON array"},
		"AListOfInputs":       {`{"inputs": [1]}`, ".inputs", "must not be a JSON array"},
		"APromptWithASpace":   {`{"prompt": "a b"}`, ".prompt", "no name of an input"},
		"AnInputOfNoParam":    {`{"inputs": {"stepz": "n"}}`, ".inputs", `"stepz", which is no parameter`},
		"AnInputWithASlash":   {`{"inputs": {"steps": "a/b"}}`, ".inputs", "no name of an input"},
		"AFixedInputWithADot": {`{"fixed": {"a.b": 1}}`, ".fixed", "no name of an input"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			_, err := cogengine.ParseSettings(json.RawMessage(test.settings), []string{"steps"})
			require.ErrorContains(t, err, test.says)
			var problem *engine.Problem
			require.ErrorAs(t, err, &problem)
			require.Equal(t, test.place, problem.Place)
		})
	}
}
