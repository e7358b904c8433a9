package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/stretchr/testify/require"
)

// Not parallel: the environment leads to the imitation of Compute Engine.
func TestProvidersTestGCE(t *testing.T) {
	server := fakegce.Start("us-central1-a")
	t.Cleanup(server.Close)
	t.Setenv("REELAY_GCE_ENDPOINT", server.URL)
	folder := t.TempDir()
	pools, report := filepath.Join(folder, "pools.yaml"), filepath.Join(folder, "report")
	require.NoError(t, os.WriteFile(pools, []byte(`pools:
  - name: small
    provider: gce
    region: us-central1
    zones: [us-central1-a]
    gpuType: L4
    machineType: g2-standard-4
    capacityClass: SPOT
    models: [testcard]
    maxWorkers: 1
    settings: {project: `+fakegce.Project+`, image: projects/p/global/images/i, container: registry.example/agent}
  - { name: other, provider: command, maxWorkers: 1, settings: { program: x } }
`), 0o600))

	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"NeedsAProject":    {[]string{"--file", pools}, terminal.ExitUsage, "--file and --project are required"},
		"NeedsAnAnswer":    {[]string{"--file", pools, "--pool", "small", "--project", fakegce.Project}, terminal.ExitFailed, "confirm with --yes"},
		"AnotherProject":   {[]string{"--file", pools, "--pool", "small", "--project", "mine-1", "--yes"}, terminal.ExitFailed, "give the project of the pool"},
		"AnotherProvider":  {[]string{"--file", pools, "--pool", "other", "--project", "mine-1", "--yes"}, terminal.ExitFailed, "has the provider command"},
		"ALongWait":        {[]string{"--file", pools, "--project", "mine-1", "--wait", "2h"}, terminal.ExitUsage, "--wait is 2h0m0s"},
		"NoSettingsAtHand": {[]string{"--file", pools + "x", "--project", "mine-1"}, terminal.ExitFailed, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := call(t, t.Context(), append([]string{"providers", "test-gce"}, c.args...)...)
			require.Equal(t, c.status, status, out+errs)
			require.Contains(t, out+errs, c.says)
			require.Empty(t, server.Instances())
		})
	}

	status, out, errs := call(t, t.Context(), "providers", "test-gce", "--file", pools, "--pool", "small", "--project", fakegce.Project, "--yes",
		"--report", report)

	require.Zero(t, status, out+errs)
	require.Contains(t, out, "ENDED and reclaimed")
	require.Empty(t, server.Instances())
	text, err := os.ReadFile(report + ".json")
	require.NoError(t, err)
	require.NotContains(t, string(text), "rl_live_")
	var written gce.LiveReport
	require.NoError(t, json.Unmarshal(text, &written))
	require.Len(t, written.Steps, 9)
	page, err := os.ReadFile(report + ".md")
	require.NoError(t, err)
	require.Equal(t, written.Markdown(), string(page))
}
