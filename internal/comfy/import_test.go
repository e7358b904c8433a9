package comfy_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the expected entries")

// recorded are the classes whose /object_info was recorded of a real ComfyUI.
func recorded(t *testing.T) map[string]*comfy.Class {
	t.Helper()
	data, err := os.ReadFile("../../gpu/runtimes/remote/enginetest/testdata/recordings/comfyui.json")
	require.NoError(t, err)
	var exchanges []struct {
		Name   string
		Answer json.RawMessage
	}
	require.NoError(t, json.Unmarshal(data, &exchanges))
	classes := map[string]*comfy.Class{}
	for _, e := range exchanges {
		name, ok := strings.CutPrefix(e.Name, "object info ")
		var all map[string]json.RawMessage
		if !ok || json.Unmarshal(e.Answer, &all) != nil || all[name] == nil {
			continue
		}
		classes[name], err = comfy.ParseClass(all[name])
		require.NoError(t, err)
	}
	require.NotEmpty(t, classes)
	return classes
}

func TestImport(t *testing.T) {
	t.Parallel()
	for name, classes := range map[string]map[string]*comfy.Class{
		"animatediff": nil, "wan": recorded(t), "ltx": nil, "slow_frames": recorded(t),
	} {
		t.Run("Proposes "+name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile("testdata/" + name + ".json")
			require.NoError(t, err)

			imported, err := comfy.Import(data, "my-"+strings.ReplaceAll(name, "_", "-"), "", classes)

			require.NoError(t, err)
			entry := imported.YAML()
			if *update {
				require.NoError(t, os.WriteFile("testdata/"+name+".yaml", entry, 0o644))
			}
			want, err := os.ReadFile("testdata/" + name + ".yaml")
			require.NoError(t, err)
			require.Equal(t, string(want), string(entry), "run the test with -update")
			source, err := catalogue.Parse(name+".yaml", entry)
			require.NoError(t, err)
			asJSON, err := imported.JSON()
			require.NoError(t, err)
			same, err := catalogue.Parse(name+".json", asJSON)
			require.NoError(t, err)
			require.JSONEq(t, string(source.Models[0].Settings), string(same.Models[0].Settings))
			require.JSONEq(t, string(source.Models[0].Schema), string(same.Models[0].Schema))
			require.Equal(t, source.Models[0].TimeDependsOn, same.Models[0].TimeDependsOn)
		})
	}

	t.Run("ComputesFramesFromSeconds", func(t *testing.T) {
		t.Parallel()
		data, err := os.ReadFile("testdata/wan.json")
		require.NoError(t, err)
		imported, err := comfy.Import(data, "wan", "", nil)
		require.NoError(t, err)
		asJSON, err := imported.JSON()
		require.NoError(t, err)
		source, err := catalogue.Parse("x.json", asJSON)
		require.NoError(t, err)
		settings, err := comfy.ParseSettings(source.Models[0].Settings, nil)
		require.NoError(t, err)

		for seconds, frames := range map[json.Number]json.Number{"2": "33", "0.5": "9", "4": "65"} {
			graph := settings.Bind(map[string]any{"durationSeconds": seconds}, nil)
			require.Equal(t, frames, graph["40"].Inputs["length"])
		}
		require.Equal(t, "five", settings.Bind(map[string]any{"durationSeconds": "five"}, nil)["40"].Inputs["length"],
			"the engine refuses it")
	})

	const save = `"9": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"}}`
	for name, test := range map[string]struct{ graph, output, says string }{
		"TheEditorsFormat":      {`{"nodes": []}`, "", "choose Workflow, Export (API)"},
		"NoSaver":               {`{"1": {"class_type": "A"}}`, "", "no node of the graph saves a file"},
		"AnOutputOfNoSaver":     {`{"1": {"class_type": "A"}, ` + save + `}`, "1", `the node "1" saves no file: these do: 9`},
		"AnOutputThatIsMissing": {`{` + save + `}`, "7", `the node "7" saves no file`},
		"NoJSON":                {`nodes:`, "", "not a JSON object"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			_, err := comfy.Import([]byte(test.graph), "x", test.output, nil)
			require.ErrorContains(t, err, test.says)
		})
	}

	for name, test := range map[string]struct{ graph, says string }{
		"ATitleThatIsNoName": {`{"1": {"class_type": "A", "inputs": {"x": 1}, "_meta": {"title": "Param: a b\nmodels: []"}},
			` + save + `}`, "which is no name"},
		"ATitleOfSeveralValues": {`{"1": {"class_type": "A", "inputs": {"x": 1, "y": 2}, "_meta": {"title": "Param: z"}},
			` + save + `}`, "title it Param: z=INPUT"},
		"ATitleOfALink": {`{"1": {"class_type": "A", "inputs": {"x": ["9", 0], "y": ["9", 0]},
			"_meta": {"title": "Param: z=x"}}, ` + save + `}`, "comes from another node"},
		"TwoStages": {`{"1": {"class_type": "A", "inputs": {"steps": 20, "start_at_step": 10}}, ` + save + `}`,
			"Several samplers share the steps"},
		"SeveralSavers": {`{"8": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "y"}}, ` + save + `}`,
			"The nodes 8, 9 save files"},
		"ConditioningInACircle": {`{"1": {"class_type": "A", "inputs": {"positive": ["2", 0]}}, "2": {"class_type": "B",
			"inputs": {"a": ["2", 0], "b": ["1", 0]}}, ` + save + `}`, "No text of the graph is the prompt"},
		"FilesThatACustomerMayName": {`{"1": {"class_type": "A", "inputs": {"x": "a.safetensors"}, "_meta": {"title": "Param: file"}},
			` + save + `}`, "list the allowed ones as an enum"},
	} {
		t.Run("Notes"+name, func(t *testing.T) {
			t.Parallel()
			imported, err := comfy.Import([]byte(test.graph), "x", "", nil)
			require.NoError(t, err)
			require.Contains(t, strings.Join(imported.Notes, "\n"), test.says)
			_, err = catalogue.Parse("x.yaml", imported.YAML())
			require.NoError(t, err, "%s", imported.YAML())
		})
	}

	t.Run("NotesWhatTheEngineLacks", func(t *testing.T) {
		t.Parallel()
		data, err := os.ReadFile("testdata/ltx.json")
		require.NoError(t, err)
		imported, err := comfy.Import(data, "x", "", recorded(t))
		require.NoError(t, err)
		notes := strings.Join(imported.Notes, "\n")
		require.Contains(t, notes, "The engine has no node LTXVConditioning (node 69)")
		require.Contains(t, notes, `The engine does not have clip_name = "t5xxl_fp16.safetensors" (node 38, CLIPLoader)`)
		require.NotContains(t, notes, "island.jpg", "it is a file of the job")
	})
}
