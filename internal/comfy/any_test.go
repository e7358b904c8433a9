package comfy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/comfy"
	"github.com/stretchr/testify/require"
)

func TestAllowed(t *testing.T) {
	t.Parallel()
	allowed := &comfy.Allowed{Nodes: []string{"LoadImage", "Load", "SaveVideo"}, Files: []string{"wan.safetensors", "mask.png"}}
	graphOf := func(t *testing.T, value any) comfy.Graph {
		t.Helper()
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		graph, err := comfy.ParseGraph([]byte(`{"1": {"class_type": "Load", "inputs": {"x": ` + string(encoded) +
			`}}, "2": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0], "filename_prefix": "../../x.png"}}}`))
		require.NoError(t, err)
		return graph
	}

	for name, value := range map[string]any{
		"AnAllowedModel": "wan.safetensors", "AnAllowedPicture": "mask.png", "AFileOfTheJob": "{{files.1}}",
		"APrompt": "A fox. It runs: 1/2 of the way.\nSlowly.",
		"Nothing": "", "ANumber": 3, "AList": []any{1, "a"}, "AChoice": "video/h264-mp4", "AnAllowedModelInAList": []any{"wan.safetensors"},
	} {
		t.Run("Takes"+name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, allowed.Check(graphOf(t, value), 2))
		})
	}

	for name, test := range map[string]struct {
		value any
		says  string
	}{
		"AnotherModel":               {"sd.safetensors", "which this model does not allow"},
		"ACapitalModel":              {" SD.CKPT ", "which this model does not allow"},
		"AModelInAnObject":           {map[string]any{"a": []any{map[string]any{"b": "x.pt"}}}, "which this model does not allow"},
		"AModelAsAKey":               {map[string]any{"x.pt": 1}, "which this model does not allow"},
		"APictureOfOthers":           {"photo.png", "has the name of a file"},
		"APictureInAFolder":          {"reelay/0b1c-referenceImage.jpg", "has the name of a file"},
		"APictureOfTheOutputs":       {"film_00001_.mp4 [output]", "has the name of a file"},
		"AnAllowedPictureFromOutput": {"photo [temp]", "has the name of a file"},
		"APictureInQuotes":           {`"photo.JPEG"`, "has the name of a file"},
		"APictureOnALine":            {"a\nphoto.webp\nb", "has the name of a file"},
		"TheFolderOfUploads":         {"reelay", "has the name of a file"},
		"AFileThatIsMissing":         {"{{files.2}}", "is {{files.2}}, but the job has 2 files"},
		"AFileWithinAText":           {"a {{files.0}} b", "must be the whole value"},
		"AFileInAList":               {[]any{"{{files.0}}"}, "must be the whole value"},
		"AFileWithALargeNumber":      {"{{files.100}}", "must be the whole value"},
		"AnAddress":                  {"see http://10.0.0.1/x", "may not name addresses"},
		"AnObjectStore":              {"S3://bucket/x", "may not name addresses"},
		"ADataURL":                   {"data:image/png;base64,AA", "may not name addresses"},
		"APath":                      {"/etc/passwd", "may not name paths"},
		"APathAbove":                 {"a/../../b", "may not name paths"},
		"AParent":                    {"..", "may not name paths"},
		"APathOfWindows":             {`C:\x`, "may not name paths"},
		"AHome":                      {"~/x", "may not name paths"},
		"ANUL":                       {"a\x00b", "NUL character"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			err := allowed.Check(graphOf(t, test.value), 2)
			require.ErrorContains(t, err, "the input x of the node 1 (Load) ")
			require.ErrorContains(t, err, test.says)
		})
	}

	t.Run("RefusesAnotherClass", func(t *testing.T) {
		t.Parallel()
		graph, err := comfy.ParseGraph([]byte(`{"7": {"class_type": "ExecutePython", "inputs": {"filename_prefix": "x"}}}`))
		require.NoError(t, err)
		require.ErrorContains(t, allowed.Check(graph, 0), "the node 7 is of the class ExecutePython, which this model does not allow")
	})

	t.Run("RefusesAGraphThatSavesNothing", func(t *testing.T) {
		t.Parallel()
		graph, err := comfy.ParseGraph([]byte(`{"7": {"class_type": "Load"}}`))
		require.NoError(t, err)
		require.ErrorContains(t, allowed.Check(graph, 0), "no node saves a file")
	})

	t.Run("PutsInTheNamesOfFiles", func(t *testing.T) {
		t.Parallel()
		graph := graphOf(t, "{{files.1}}")
		graph.SetFiles(map[string]string{"files.0": "reelay/a.png", "files.1": "reelay/b.png"})
		require.Equal(t, "reelay/b.png", graph["1"].Inputs["x"])
	})
}

func FuzzAllowed(f *testing.F) {
	f.Add("a.png")
	f.Add("{{files.0}}")
	f.Fuzz(func(t *testing.T, text string) {
		graph := comfy.Graph{"1": {Class: "Load", Inputs: map[string]any{"x": text, "filename_prefix": "y"}}}
		if (&comfy.Allowed{Nodes: []string{"Load"}}).Check(graph, 1) == nil {
			graph.SetFiles(map[string]string{"files.0": "ours"})
			left, _ := graph["1"].Inputs["x"].(string)
			if strings.HasPrefix(left, "/") || strings.Contains(left, "://") {
				t.Errorf("%q was allowed", text)
			}
		}
	})
}
