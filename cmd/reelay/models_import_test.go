package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

func TestModelsImport(t *testing.T) {
	t.Parallel()
	const graph = "../../internal/comfy/testdata/slow_frames.json"

	t.Run("AsksTheEngine", func(t *testing.T) {
		t.Parallel()
		comfy := enginetest.NewComfyUI(t)
		comfy.Offers("SlowFrames", "model", "large.safetensors")
		file := filepath.Join(t.TempDir(), "slow.yaml")

		status, out, errs := call(t, t.Context(), "models", "import-comfyui", graph, "--name", "slow", "--engine", comfy.URL+"/", "-o", file)

		require.Zero(t, status, errs)
		require.Empty(t, out)
		require.Contains(t, errs, "Wrote "+file+" with 8 parameters.")
		entry, err := os.ReadFile(file)
		require.NoError(t, err)
		source, err := catalogue.Parse(file, entry)
		require.NoError(t, err)
		require.Equal(t, "slow", source.Models[0].Name)
		require.Contains(t, string(source.Models[0].Schema), `["large.safetensors"]`)
	})

	t.Run("PrintsJSON", func(t *testing.T) {
		t.Parallel()
		status, out, errs := call(t, t.Context(), "models", "import-comfyui", graph, "--name", "slow", "--output-node", "3", "--json")
		require.Zero(t, status, errs)
		_, err := catalogue.Parse("slow.json", []byte(out))
		require.NoError(t, err)
	})

	t.Run("RefusesBadInput", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		editor := filepath.Join(dir, "editor.json")
		require.NoError(t, os.WriteFile(editor, []byte(`{"nodes": [], "links": []}`), 0o600))
		for says, args := range map[string][]string{
			"--name is missing":                        {graph},
			"choose Workflow, Export (API)":            {editor, "--name", "x"},
			"no such file":                             {filepath.Join(dir, "none.json"), "--name", "x"},
			`the node "9" saves no file`:               {graph, "--name", "x", "--output-node", "9"},
			"exists: choose another file":              {graph, "--name", "x", "-o", editor},
			"must begin with http:// or https://":      {graph, "--name", "x", "--engine", "file:///etc/passwd"},
			"ask http://127.0.0.1:1 for the node":      {graph, "--name", "x", "--engine", "http://127.0.0.1:1"},
			"GRAPH is missing":                         {"--name", "x"},
			"--engine-secrets: stat /nowhere/secrets:": {graph, "--name", "x", "--engine", "http://127.0.0.1:1", "--engine-secrets", "/nowhere/secrets"},
		} {
			status, _, errs := call(t, t.Context(), append([]string{"models", "import-comfyui"}, args...)...)
			require.NotZero(t, status)
			require.Contains(t, errs, says)
		}
	})
}
