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
	"google.golang.org/api/compute/v1"
)

// Not parallel: the environment leads to the imitation of Compute Engine.
func TestDoctorLive(t *testing.T) {
	server := fakegce.Start("us-central1-a")
	t.Cleanup(server.Close)
	issuer, err := fakegce.StartIssuer()
	require.NoError(t, err)
	t.Cleanup(issuer.Close)
	server.RunScripts(issuer)
	server.Put("global/images/i", compute.Image{DiskSizeGb: 50})
	server.Put("global/networks/default", compute.Network{})
	server.Put("zones/us-central1-a/machineTypes/g2-standard-4", compute.MachineType{
		Accelerators: []*compute.MachineTypeAccelerators{{GuestAcceleratorType: "nvidia-l4", GuestAcceleratorCount: 1}},
	})
	server.Put("regions/us-central1", compute.Region{Quotas: []*compute.Quota{{Metric: "PREEMPTIBLE_NVIDIA_L4_GPUS", Limit: 8}}})
	t.Setenv("REELAY_GCE_ENDPOINT", server.URL)
	t.Setenv("REELAY_GCE_IDENTITY_KEYS_URL", issuer.URL)
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
    settings:
      project: `+fakegce.Project+`
      image: projects/`+fakegce.Project+`/global/images/i
      container: registry.example/agent
      serviceAccount: worker@`+fakegce.Project+`.iam.gserviceaccount.com
  - name: broken
    provider: gce
    region: us-central1
    zones: [us-central1-a]
    gpuType: L4
    machineType: g2-standard-8
    models: [testcard]
    maxWorkers: 1
    settings: {project: `+fakegce.Project+`, image: projects/`+fakegce.Project+`/global/images/i}
  - { name: other, provider: command, maxWorkers: 1, settings: { program: x } }
  - { name: pods, provider: kubernetes, region: eu-1, gpuType: L4, models: [testcard], maxWorkers: 1, settings: { template: "Not A Name" } }
`), 0o600))
	live := func(args ...string) []string {
		return append([]string{"--gce", "--live", "--file", pools, "--report", report}, args...)
	}

	for name, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"NeedsAProject":     {live(), terminal.ExitUsage, "--live needs --file and --project"},
		"NeedsAFile":        {[]string{"--gce", "--live", "--project", "mine-1"}, terminal.ExitUsage, "--live needs --file and --project"},
		"NeedsACloud":       {[]string{"--file", pools}, terminal.ExitUsage, "give --gce or --kubernetes"},
		"IsForGCE":          {[]string{"--kubernetes", "--live", "--file", pools}, terminal.ExitUsage, "--live is for Compute Engine"},
		"NoJSON":            {live("--project", "mine-1", "--json"), terminal.ExitUsage, "it writes " + report + ".json"},
		"NoStores":          {live("--project", "mine-1", "--full"), terminal.ExitUsage, "--file checks no stores"},
		"AProjectForNobody": {[]string{"--gce", "--project", "mine-1"}, terminal.ExitUsage, "--project is for --live"},
		"AYesForNobody":     {[]string{"--yes"}, terminal.ExitUsage, "--yes is for --live"},
		"APoolOfNoFile":     {[]string{"--gce", "--pool", "small"}, terminal.ExitUsage, "--pool names a pool of --file"},
		"ALongWait":         {live("--project", "mine-1", "--wait", "2h"), terminal.ExitUsage, "--wait is 2h0m0s"},
		"NoReport":          {live("--project", "mine-1", "--report", ""), terminal.ExitUsage, "--report is empty"},
		"NeedsAnAnswer":     {live("--pool", "small", "--project", fakegce.Project), terminal.ExitUsage, "answer with --yes"},
		"AnotherProject":    {live("--pool", "small", "--project", "mine-1", "--yes"), terminal.ExitFailed, "give the project of the pool"},
		"AnotherProvider":   {live("--pool", "other", "--project", "mine-1", "--yes"), terminal.ExitFailed, "has the provider command"},
		"SeveralPools":      {live("--project", "mine-1", "--yes"), terminal.ExitFailed, "name one with --pool"},
		"NothingAtHand":     {[]string{"--gce", "--live", "--file", pools + "x", "--project", "mine-1"}, terminal.ExitFailed, "no such file"},
		"ABrokenPool": {live("--pool", "broken", "--project", fakegce.Project, "--yes"), terminal.ExitFailed,
			"something is broken: no machine was created"},
		"ExaminesAFile": {[]string{"--gce", "--file", pools, "--pool", "broken", "--verbose"}, terminal.ExitFailed, "gce-machine-type"},
		"ExaminesPods":  {[]string{"--kubernetes", "--file", pools}, terminal.ExitFailed, "kubernetes-settings"},
		"HasNoPod":      {[]string{"--kubernetes", "--gce", "--file", pools, "--pool", "broken"}, terminal.ExitFailed, "No pool has this provider"},
		"HasNoSuchPool": {[]string{"--kubernetes", "--file", pools, "--pool", "small"}, 2, "has no such pool"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := call(t, t.Context(), append([]string{"doctor"}, c.args...)...)
			require.Equal(t, c.status, status, out+errs)
			require.Contains(t, out+errs, c.says)
			require.Empty(t, server.Instances())
		})
	}

	args := append([]string{"doctor"}, live("--pool", "small", "--project", fakegce.Project, "--yes")...)

	status, out, errs := call(t, t.Context(), args...)

	require.Zero(t, status, out+errs)
	require.Contains(t, out, "ENDED and reclaimed")
	require.Contains(t, out, "signed by Google for this run")
	require.Contains(t, out, "LATER    costs by label")
	require.Contains(t, out, "WHERE project.id = '"+fakegce.Project+"'")
	require.Empty(t, server.Instances())
	text, err := os.ReadFile(report + ".json")
	require.NoError(t, err)
	require.NotContains(t, string(text)+out+errs, "rl_live_")
	require.NotContains(t, string(text)+out+errs, "eyJ")
	var written gce.LiveReport
	require.NoError(t, json.Unmarshal(text, &written))
	require.Len(t, written.Steps, 10)
	page, err := os.ReadFile(report + ".md")
	require.NoError(t, err)
	require.Equal(t, written.Markdown(), string(page))
}
