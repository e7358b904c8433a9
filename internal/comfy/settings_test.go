package comfy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/internal/engine"
	"github.com/stretchr/testify/require"
)

const film = `{
	"6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a fox", "clip": ["1", 0]}},
	"7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["1", 0]}},
	"1": {"class_type": "CLIPLoader", "inputs": {"clip_name": "t5.safetensors"}},
	"57:8": {"class_type": "SaveVideo", "inputs": {"video": ["6", 0], "filename_prefix": "ComfyUI", "fps": 24.5},
		"_meta": {"title": "Save"}}}`

func TestParseGraph(t *testing.T) {
	t.Parallel()

	t.Run("ReadsNodesAndNumbers", func(t *testing.T) {
		t.Parallel()
		graph, err := comfy.ParseGraph([]byte(film))
		require.NoError(t, err)
		require.Equal(t, []string{"1", "6", "7", "57:8"}, graph.Sorted())
		require.Equal(t, json.Number("24.5"), graph["57:8"].Inputs["fps"])
		require.Equal(t, "Save", graph["57:8"].Meta.Title)
	})

	t.Run("ReadsTheBodyOfACall", func(t *testing.T) {
		t.Parallel()
		graph, err := comfy.ParseGraph([]byte(`{"client_id": "x", "prompt": ` + film + `}`))
		require.NoError(t, err)
		require.Len(t, graph, 4)
	})

	many := map[string]any{}
	for i := range comfy.MaxNodes + 1 {
		many[fmt.Sprint(i)] = map[string]any{"class_type": "A", "inputs": map[string]any{}}
	}
	tooMany, err := json.Marshal(many)
	require.NoError(t, err)
	for name, test := range map[string]struct{ graph, place, says string }{
		"TheEditorsFormat":  {`{"nodes": [], "links": [], "version": 0.4}`, "", "choose Workflow, Export (API)"},
		"NoJSON":            {`{"1": `, "", "not a JSON object"},
		"AList":             {`[]`, "", "not a JSON object"},
		"Nothing":           {`{}`, "", "0 nodes"},
		"TooManyNodes":      {string(tooMany), "", "1001 nodes: it must have 1 to 1000"},
		"TooManyBytes":      {`{"1": "` + strings.Repeat("x", comfy.MaxGraph) + `"}`, "", "at most 262144 are allowed"},
		"AnIDThatIsAPath":   {`{"../1": {"class_type": "A"}}`, "", `the id "../1"`},
		"ALongID":           {`{"` + strings.Repeat("1", 65) + `": {"class_type": "A"}}`, "", "up to 64"},
		"ANodeThatIsAText":  {`{"1": "A"}`, ".1", "node 1 is not one of the API format"},
		"ANodeWithoutClass": {`{"1": {"inputs": {}}}`, ".1", "node 1 has no class_type"},
		"AClassWithMarkup":  {`{"1": {"class_type": "<b>"}}`, ".1", "node 1 has no class_type"},
		"InputsInAList":     {`{"1": {"class_type": "A", "inputs": []}}`, ".1", "node 1 is not one of the API format"},
		"ALinkToNoNode":     {`{"1": {"class_type": "A", "inputs": {"x": ["2", 0]}}}`, ".1.inputs", `comes from the node "2"`},
		"AWrappedEmptyOne":  {`{"prompt": {}}`, "", "0 nodes"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			_, err := comfy.ParseGraph([]byte(test.graph))
			require.ErrorContains(t, err, test.says)
			require.Less(t, len(err.Error()), 500)
			var problem *engine.Problem
			require.ErrorAs(t, err, &problem)
			require.Equal(t, test.place, problem.Place)
		})
	}
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	with := func(more string) string { return `{"graph": ` + film + more + `}` }
	targets := make([]string, 51)
	for i := range targets {
		targets[i] = `"6.text"`
	}

	for name, test := range map[string]struct{ settings, place, says string }{
		"Nothing":        {"", "", "graph is missing"},
		"NoGraph":        {"{}", "", "graph is missing"},
		"AnUnknownField": {`{"grpah": {}}`, "", `settings have no field "grpah"`},
		"AWrongType":     {`{"output": 3}`, ".output", "settings.output must not be a JSON number"},
		"ABadGraph": {`{"graph": {"1": {"class_type": "A", "inputs": {"x": ["2", 0]}}}}`, ".graph.1.inputs",
			"which the graph does not have"},
		"NothingSaved":      {`{"graph": {"1": {"class_type": "A"}}}`, ".graph", "no node of the graph saves a file"},
		"AnUnknownOutput":   {with(`, "output": "9"`), ".output", `output is the node "9"`},
		"AnUnknownParam":    {with(`, "inputs": {"seed": "6.text"}`), ".inputs.seed", "seed, which is no parameter"},
		"AParamWithADot":    {with(`, "inputs": {"a.b": "6.text"}`), ".inputs", `the parameter "a.b"`},
		"ATargetWithoutDot": {with(`, "inputs": {"prompt": "6"}`), "", `"6" must be the id of a node, a dot`},
		"ATargetOfNoNode":   {with(`, "inputs": {"prompt": "9.text"}`), ".inputs.prompt", `no node "9"`},
		"ATargetOfNoInput":  {with(`, "inputs": {"prompt": "6.txt"}`), ".inputs.prompt", `no input "txt"`},
		"ATargetThatLinks":  {with(`, "inputs": {"prompt": "6.clip"}`), ".inputs.prompt", "comes from another node"},
		"ATargetOfFiles":    {with(`, "inputs": {"prompt": "57:8.filename_prefix"}`), ".inputs.prompt", "Reelay names the files itself"},
		"NoTarget":          {with(`, "inputs": {"prompt": []}`), ".inputs.prompt", "names no input"},
		"TooManyTargets":    {with(`, "inputs": {"prompt": [` + strings.Join(targets, ",") + `]}`), ".inputs", "51 targets"},
		"AnyWithAGraph":     {with(`, "any": {"nodes": ["A"]}`), "", "settings with any have no graph"},
		"AnyWithoutNodes":   {`{"any": {"files": ["x"]}}`, ".any.nodes", "must name 1 to 500"},
		"AnyWithABadClass":  {`{"any": {"nodes": ["a\"b"]}}`, ".any.nodes", "which is no class"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			settings, err := comfy.ParseSettings(json.RawMessage(test.settings), []string{"steps", "graph"})
			require.ErrorContains(t, err, test.says)
			require.Nil(t, settings)
			var problem *engine.Problem
			require.ErrorAs(t, err, &problem)
			require.Equal(t, test.place, problem.Place)
		})
	}

	t.Run("RefusesAnyWithoutTheParameter", func(t *testing.T) {
		t.Parallel()
		_, err := comfy.ParseSettings(json.RawMessage(`{"any": {"nodes": ["A"]}}`), []string{"steps"})
		require.ErrorContains(t, err, "any needs the parameter graph")
	})

	t.Run("TakesAnyParameterIfTheyAreNotKnown", func(t *testing.T) {
		t.Parallel()
		_, err := comfy.ParseSettings(json.RawMessage(with(`, "inputs": {"seed": "6.text"}`)), nil)
		require.NoError(t, err)
	})
}

func TestBind(t *testing.T) {
	t.Parallel()
	settings, err := comfy.ParseSettings(json.RawMessage(`{"graph": `+film+`, "inputs": {
		"prompt": ["6.text", "7.text"], "fps": "57:8.fps", "image": "1.clip_name", "unset": "1.clip_name"}}`), nil)
	require.NoError(t, err)

	graph := settings.Bind(map[string]any{"prompt": "a cat", "fps": json.Number("30"), "image": "art_1", "unset": nil, "other": 1},
		map[string]string{"image": "reelay/k-image.png"})

	require.Equal(t, "a cat", graph["6"].Inputs["text"])
	require.Equal(t, "a cat", graph["7"].Inputs["text"])
	require.Equal(t, json.Number("30"), graph["57:8"].Inputs["fps"])
	require.Equal(t, "reelay/k-image.png", graph["1"].Inputs["clip_name"])
	require.Equal(t, "a fox", settings.Graph["6"].Inputs["text"], "the settings keep their graph")

	names := graph.SetPrefix("key")
	require.Equal(t, map[string]string{"57:8": "key-n57-8"}, names)
	require.Equal(t, "reelay/key-n57-8", graph["57:8"].Inputs["filename_prefix"])
	require.Equal(t, "ComfyUI", settings.Graph["57:8"].Inputs["filename_prefix"])
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"6.text"`, `["6.text","57:8.a.b"]`} {
		var targets comfy.Targets
		require.NoError(t, json.Unmarshal([]byte(text), &targets))
		again, err := json.Marshal(targets)
		require.NoError(t, err)
		require.Equal(t, text, string(again))
	}
}
