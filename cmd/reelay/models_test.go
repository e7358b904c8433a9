package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModelsCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.yaml")
	require.NoError(t, os.WriteFile(file, []byte("models: []\n"), 0o600))

	const model = `{"name": "wan", "version": 3, "type": "video.generate", "description": "A model.", "available": false, "state": "NOT_SERVED", "gpuTypes": ["L4", "H100"],
		"gpuMemoryGb": 24, "gpusPerWorker": 1, "produces": "VIDEO", "requiresPrompt": true, "timeoutSeconds": 600, "gpuSecondsPerSecond": 12,
		"priceFactor": 1, "fallback": ["veo", "own"], "runtime": "diffusers", "origin": "OPERATOR", "createdAt": "2026-01-31T12:00:00Z", "settings": {"weights": "/w"}, "drafts": {"stepsParam": "steps"},
		"paramsSchema": {"properties": {"fps": {"default": 24, "description": "Frames per second."}}}}`
	const change = `{"kind": "CHANGED", "name": "wan", "isAlias": false, "version": 3, "differences": [{"path": "timeoutSeconds", "before": 60, "after": null}]}`

	for name, c := range map[string]struct {
		args      []string
		data      string
		shows     []string
		variables map[string]any
	}{
		"list": {
			nil, `{"models": [` + model + `], "modelAliases": [{"name": "fast", "version": 1, "models": [{"name": "wan", "weight": 3}]}]}`,
			[]string{`wan +video.generate +not served +A model.`, `fast +alias +- +Spreads jobs over wan \(weight 3\).`}, nil,
		},
		"list as JSON": {[]string{"list", "--json"}, `{"models": [` + model + `], "modelAliases": []}`, []string{`"items": \[`,
			`"fallback": \[\s+"veo",\s+"own"`}, nil},
		"list wide": {[]string{"list", "-o", "wide"}, `{"models": [` + model + `], "modelAliases": []}`, []string{` veo, own +A model`}, nil},
		"show": {
			[]string{"show", "wan", "--version", "3"}, `{"model": ` + model + `}`,
			[]string{`version +3  \(operator, \d+ days ago\)`, `GPU memory +24 GB`, `settings +{"weights": "/w"}`, `fps +24 +Frames per second.`,
				`fallback +veo, own\n`, `drafts +yes, of the parameter steps`},
			map[string]any{"name": "wan", "version": 3.0},
		},
		"show an alias": {
			[]string{"show", "fast"}, `{"model": null, "modelAliases": [{"name": "fast", "version": 1, "models": [{"name": "wan", "weight": 3}]}]}`,
			[]string{`alias +fast`, `Spreads jobs over wan \(weight 3\).`}, nil,
		},
		"apply": {
			[]string{"apply", "-f", file}, `{"applyModels": [` + change + `]}`,
			[]string{`changed +model wan, version 3\n +timeoutSeconds: 60 → none\n`},
			map[string]any{"input": map[string]any{"source": "models: []\n", "file": file, "dryRun": false}},
		},
		"diff as JSON": {
			[]string{"diff", "-f", file, "--json"}, `{"applyModels": [` + change + `]}`, []string{`"kind": "CHANGED"`},
			map[string]any{"input": map[string]any{"source": "models: []\n", "file": file, "dryRun": true}},
		},
		"remove": {
			[]string{"remove", "wan", "--from-pools"}, `{"removeModel": true}`, []string{`Removed "wan". .reelay models restore wan. puts it back`},
			map[string]any{"name": "wan", "fromPools": true},
		},
		"restore": {[]string{"restore", "wan"}, `{"restoreModel": ` + change + `}`, []string{`Restored version 3 of wan\.`},
			map[string]any{"name": "wan"}},
		"list removed": {
			[]string{"restore"}, `{"removedModels": [{"name": "wan", "isAlias": false, "version": 3, "origin": "SHIPPED", "removedAt": "2026-01-31T12:00:00Z", "removedBy": "ana@example.com"}]}`,
			[]string{`wan +3 +shipped +\d+ days ago +ana@example.com`}, nil,
		},
		"export": {[]string{"export", "wan"}, `{"exportModels": "models:\n  - name: wan\n"}`, []string{`^models:\n  - name: wan\n$`},
			map[string]any{"names": []any{"wan"}}},
		"show as YAML": {
			[]string{"show", "wan", "-o", "yaml"}, `{"model": {"source": "models:\n  - name: wan\n"}}`, []string{`^models:\n  - name: wan\n$`},
			map[string]any{"name": "wan"},
		},
		"show removed": {
			[]string{"show", "wan", "--version", "3"}, `{"model": ` +
				strings.Replace(model, `"createdAt"`, `"removedAt": "2026-01-31T12:00:00Z", "removedBy": "ana@example.com", "createdAt"`, 1) + `}`,
			[]string{`\(operator, \d+ days ago\)  removed \d+ days ago by ana@example.com`}, map[string]any{"name": "wan", "version": 3.0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, variables := answering(t, c.data)

			status, out, errs := call(t, t.Context(), append(append([]string{"models"}, c.args...), "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			for _, shown := range c.shows {
				require.Regexp(t, shown, out)
			}
			require.Equal(t, c.variables, *variables)
		})
	}

	t.Run("SaysWhereTheNamesAreIfThereIsNone", func(t *testing.T) {
		t.Parallel()
		url, _ := answering(t, `{"model": null, "modelAliases": []}`)

		status, _, errs := call(t, t.Context(), "models", "show", "nonesuch", "--endpoint", url, "--key", "rl_x")

		require.NotZero(t, status)
		require.Contains(t, errs, "there is no model or alias nonesuch: `reelay models` lists them")
	})

	t.Run("RefusesAFileThatItCannotRead", func(t *testing.T) {
		t.Parallel()
		large := filepath.Join(t.TempDir(), "large.yaml")
		require.NoError(t, os.WriteFile(large, make([]byte, 256<<10+1), 0o600))

		for path, says := range map[string]string{"": "name the file with -f FILE", "/nowhere.yaml": "no such file",
			large: "longer than 262144 bytes"} {
			status, _, errs := call(t, t.Context(), "models", "apply", "-f", path, "--endpoint", "http://127.0.0.1:1", "--key", "rl_x")

			require.NotZero(t, status)
			require.Contains(t, errs, says)
		}
	})
}
