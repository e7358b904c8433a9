package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/simulate"
	"github.com/stretchr/testify/require"
)

const tinyScenario = `
name: tiny
hours: 1
workload:
  - { tier: PRO, jobs: 20, model: ltx-video, durationSeconds: 5 }
pools:
  - { name: spot, provider: gce, region: r, gpuType: L4, models: [ltx-video], maxWorkers: 5, pricePerHourUsd: 0.5 }
machines: { bootSeconds: { median: 60 }, preemptionsPerHour: 2 }
variants:
  - { name: never, checkpoints: { policy: none } }
  - { name: always, checkpoints: { policy: fixed, seconds: 10 } }
`

func TestSimulate(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	file, bad := filepath.Join(folder, "tiny.yaml"), filepath.Join(folder, "bad.yaml")
	require.NoError(t, os.WriteFile(file, []byte(tinyScenario), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("hours: -1\nworklaod: []\n"), 0o600))
	result, page := filepath.Join(folder, "result.json"), filepath.Join(folder, "report.html")
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"List":         {[]string{"--list"}, 0, "mass-reclaim"},
		"Print":        {[]string{"night-batch", "--print"}, 0, "activeHours:"},
		"Variants":     {[]string{file, "--json", result, "--html", page, "--seed", "7"}, 0, "ALWAYS"},
		"Compare":      {[]string{file, "--compare", "always"}, 0, "ALWAYS"},
		"JSON":         {[]string{file, "--json", "-"}, 0, `"scenario": "never"`},
		"NoScenario":   {nil, terminal.ExitUsage, "name a scenario or a file"},
		"NoSuch":       {[]string{"nope"}, terminal.ExitFailed, "there is no scenario nope: name a file, or one of"},
		"NoSuchFile":   {[]string{"./nope.yaml"}, terminal.ExitFailed, "no such file"},
		"BadFile":      {[]string{bad}, terminal.ExitFailed, `bad.yaml:2: unknown field "worklaod"`},
		"NoSuchFolder": {[]string{file, "--html", folder + "/no/report.html"}, terminal.ExitFailed, "does not exist: create it first"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, c.status, run(append([]string{"simulate"}, c.args...), &out, &out), out.String())
			require.Contains(t, out.String(), c.says)
		})
	}
	var results []simulate.Result
	data, err := os.ReadFile(result)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &results))
	require.Len(t, results, 2)
	require.Equal(t, uint64(7), results[0].Seed)
	require.NotNil(t, results[1].BreakEvenSeconds)
	require.FileExists(t, page)
}
