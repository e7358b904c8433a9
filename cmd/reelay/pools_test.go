package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoolCommands(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "pools.yaml")
	require.NoError(t, os.WriteFile(file, []byte("pools: []"), 0o600))
	const pool = `{"id": "pol_1", "name": "l4-spot", "provider": "static", "region": "here", "zones": ["here-a"], "gpuType": "L4", "machineType": "",
		"capacityClass": "SPOT", "models": ["testcard"], "minWorkers": 0, "maxWorkers": 4, "warmWorkers": 1, "scaleDownCooldownSeconds": 300,
		"bootLimitSeconds": 600, "pricePerHourUsd": 0.28, "priceSource": "l4",
		"price": {"pricePerHourUsd": 0.31, "source": "l4", "at": "2026-01-31T12:00:00Z", "stale": true, "problem": "It hangs.", "ahead": [{"from": "2026-01-31T18:00:00Z", "pricePerHourUsd": 0.2}]}, "lossesPerHour": 0.04,
		"advice": {"at": "2026-01-31T12:00:00Z", "pricePerHourUsd": 0.3, "preempted": 0.12, "uptimeSeconds": 7200}, "maxPricePerHourUsd": 0.5, "accounts": [],
		"yieldingTiers": ["FREE", "BATCH"], "workersPerMachine": 2, "gpusPerWorker": 4, "holdOnFailure": true, "activeHours": "0 2 * * * for 6h", "settings": {}, "paused": false, "state": "CLOSED_BY_HOURS", "warnings": ["There is no source l4."], "desired": 3,
		"booting": 0, "idle": 1, "busy": 2, "draining": 0, "checkpointPlans": [],
		"modelLoads": [{"model": "wan", "loadSeconds": 42.1, "fetchSeconds": 180, "fetches": 2, "loads": 9}]}`
	const engine = `{"url": "http://gpu-1:8188", "kind": "comfyui", "state": "BUSY", "reason": "", "since": "2026-01-31T12:00:00Z", "version": "0.3.75",
		"gpuName": "L4", "gpuMemoryBytes": "25769803776", "lacks": [{"model": "wan", "missing": "the node X"}], "held": true, "heldBy": "night shift",
		"worker": {"id": "wrk_1", "status": "DRAINING", "currentJob": {"id": "job_1"}}}`
	const comfy = `{"id": "pol_2", "name": "comfy", "provider": "engines", "models": [], "followsCatalogue": true, "engineKind": "comfyui", "engines": [` +
		engine + `, {"url": "http://gpu-2:8188", "kind": "comfyui", "state": "UNREACHABLE", "reason": "connection refused", "since": "2026-01-31T12:00:00Z"}]}`
	for name, c := range map[string]struct {
		args  []string
		data  string
		shows string
		sends map[string]any // in the last call
	}{
		"show": {
			[]string{"show", "l4-spot"},
			`{"pools": [` + pool + `], "pool": {"scalingHistory": [{"at": "2026-01-31T12:00:00Z", "from": 1, "to": 3, "reason": "Because.", "error": "no capacity"}]}}`,
			`(?s)state +closed by hours\nwarning +There is no source l4\..*1 idle, 2 busy.*preemptible +free, batch.*2 workers each, 4 GPUs.*\$0\.31 per worker.*by l4, .* ago, stale.*\$0\.28, if the source l4.*It hangs\..*\$0\.2 from 31 Jan 18:00 UTC.*0\.04 per busy hour.*list price \$0\.3 per machine, 12 % preempted lately, most run 2 h, .*\$0\.5 per.*0 2 \* \* \* for 6h.*loads +wan in 42 s, and 3 min 00 s to download the weights  \(9 loads measured\).*1 → 3 +Because\. But: no capacity`, map[string]any{"id": "pol_1"},
		},
		"explain": {
			[]string{"explain", "l4-spot"},
			`{"pools": [` + pool + `], "pool": {"explanation": {"at": "2026-01-31T12:00:00Z", "workers": 1, "desired": 3, "boot": 2, "drain": 0, "reason": "Because.", "inputs": {}}}}`,
			`l4-spot has 1 of the 3 workers that it should have. Start the agents of 2: Reelay does not start the machines of this pool\.\nBecause\.`, map[string]any{"id": "pol_1"},
		},
		"explain one that Reelay boots": {
			[]string{"explain", "l4-spot"},
			`{"pools": [` + strings.Replace(pool, `"static"`, `"gce"`, 1) +
				`], "pool": {"explanation": {"at": "2026-01-31T12:00:00Z", "workers": 1, "desired": 3, "boot": 2, "drain": 0, "reason": "Because.", "inputs": {}}}}`,
			`It boots 2\.\nBecause\.`, map[string]any{"id": "pol_1"},
		},
		"diff": {
			[]string{"diff", "-f", file},
			`{"applyPools": [{"kind": "CHANGED", "name": "l4-spot", "warnings": ["There is no source l4."], "differences": [{"path": "maxWorkers", "before": 4, "after": 9}]}]}`,
			`changed +pool l4-spot\n +warning: There is no source l4\.\n +maxWorkers: 4 → 9`, map[string]any{"dryRun": true, "source": "pools: []"},
		},
		"apply": {
			[]string{"apply", "-f", file}, `{"applyPools": [{"kind": "ADDED", "name": "l4-spot", "differences": []}]}`,
			`added +pool l4-spot`, map[string]any{"dryRun": false, "source": "pools: []"},
		},
		"list": {[]string{"list"}, `{"pools": [` + pool + `]}`, `POOL .*\nl4-spot +closed by hours +static +SPOT +L4 +0 +1 +2 +0 +0 to 4`, nil},
		"add": {
			[]string{"add", "comfy", "--kind", "videos-api", "--engine", "http://gpu-1:8188", "--engine", "http://gpu-2:8188"},
			`{"createPool": ` + comfy + `}`, "Added the pool comfy. Now start `reelay agent --pool comfy` on a machine that reaches its engines.",
			map[string]any{"name": "comfy", "provider": "engines", "engineKind": "videos-api", "models": []string{},
				"engines": []string{"http://gpu-1:8188", "http://gpu-2:8188"}},
		},
		"engines": {[]string{"engines", "comfy"}, `{"pools": [` + comfy + `]}`,
			`(?s)ENGINE +STATE .*http://gpu-1:8188 +busy, held .*job_1.*http://gpu-2:8188 +unreachable .*connection refused`, nil},
		"engines as JSON": {[]string{"engines", "comfy", "--json"}, `{"pools": [` + comfy + `]}`,
			`(?s)"url": "http://gpu-1:8188".*"gpuMemoryBytes": "?25.*"lacks": \[.*"missing": "the node X"`, nil},
		"show one of engines": {[]string{"show", "comfy"}, `{"pools": [` + comfy + `], "pool": {"scalingHistory": []}}`,
			`(?s)models +none\n +all of the catalogue whose runtime is the kind.*engines +http://gpu-1:8188  busy, held since .*, renders job_1, held by night shift; lacks wan \(the node X\)\n +http://gpu-2:8188  unreachable since .*: connection refused`, nil},
		"explain one of engines": {
			[]string{"explain", "comfy"},
			`{"pools": [` + comfy + `], "pool": {"explanation": {"at": "2026-01-31T12:00:00Z", "workers": 1, "desired": 2, "boot": 1, "drain": 0, "reason": "Because.", "inputs": {}}}}`,
			`(?s)comfy has 2 engines\. Workers: 1, one for each engine that is ready or holds a job\.\nBecause\..*\nhttp://gpu-2:8188  unreachable since .*: connection refused`, nil,
		},
		"hold-engine": {[]string{"hold-engine", "comfy", "http://gpu-1:8188"}, `{"pools": [` + comfy + `], "holdEngine": ` + engine + `}`,
			`Held the engine http://gpu-1:8188 of the pool comfy. Its state: busy, held\.`, map[string]any{"pool": "pol_2", "url": "http://gpu-1:8188"}},
		"resume-engine": {[]string{"resume-engine", "comfy", "http://gpu-1:8188"}, `{"pools": [` + comfy + `], "resumeEngine": ` +
			strings.Replace(engine, `"held": true`, `"held": false`, 1) + `}`, `Resumed the engine http://gpu-1:8188 of the pool comfy. Its state: busy\.`,
			map[string]any{"pool": "pol_2"}},
		"pause": {[]string{"pause", "pol_1"}, `{"pools": [` + pool + `], "pausePool": ` + pool + `}`,
			`Paused the pool l4-spot: 0 booting, 1 idle, 2 busy, 0 draining`, map[string]any{"id": "pol_1"}},
		"show a paused one": {
			[]string{"show", "l4-spot"},
			`{"pools": [` + strings.Replace(pool, `"paused": false, "state": "CLOSED_BY_HOURS"`,
				`"paused": true, "pausedAt": "2026-01-31T12:00:00Z", "pausedBy": "night shift", "state": "PAUSED"`, 1) +
				`], "pool": {"scalingHistory": []}}`,
			`state +paused\npaused +.* ago by night shift\n`, nil,
		},
		"show one that serves nobody": {
			[]string{"show", "l4-spot"},
			`{"pools": [` + strings.NewReplacer(`"accounts": []`, `"accounts": ["acc_1", "acc_2"]`, "CLOSED_BY_HOURS", "SERVES_NOBODY").Replace(pool) +
				`], "pool": {"scalingHistory": []}}`,
			`(?s)state +serves nobody\n.*accounts +acc_1, acc_2  \(deleted\)\n`, nil,
		},
		"resume": {[]string{"resume", "l4-spot"}, `{"pools": [` + pool + `], "resumePool": ` + pool + `}`, `Resumed the pool l4-spot`,
			map[string]any{"id": "pol_1"}},
		"delete": {[]string{"delete", "l4-spot", "--json"}, `{"pools": [` + pool + `], "deletePool": "pol_1"}`, `"deleted": "l4-spot"`,
			map[string]any{"id": "pol_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, sent := answering(t, c.data)

			status, out, errs := call(t, t.Context(), append(append([]string{"pools"}, c.args...), "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			require.Regexp(t, c.shows, out)
			variables, _ := json.Marshal(*sent)
			for name, value := range c.sends {
				expected, _ := json.Marshal(value)
				require.Contains(t, string(variables), fmt.Sprintf("%q:%s", name, expected))
			}
		})
	}

	t.Run("RefusesWhatIsNoPoolOfEngines", func(t *testing.T) {
		t.Parallel()
		url, _ := answering(t, `{"pools": [`+pool+`]}`)
		for says, args := range map[string][]string{
			"the pool l4-spot has no engines: its provider is static": {"engines", "l4-spot"},
			"there is no kind of engine \"ollama\"":                   {"add", "x", "--kind", "ollama", "--engine", "http://gpu-1"},
			"NAME is missing":                                         {"engines"},
		} {
			status, _, errs := call(t, t.Context(), append(append([]string{"pools"}, args...), "--endpoint", url, "--key", "rl_x")...)
			require.NotZero(t, status)
			require.Contains(t, errs, says)
		}
	})

	t.Run("SaysThatThereIsNoSuchPool", func(t *testing.T) {
		t.Parallel()
		url, _ := answering(t, `{"pools": []}`)

		status, _, errs := call(t, t.Context(), "pools", "pause", "nonesuch", "--endpoint", url, "--key", "rl_x")

		require.NotZero(t, status)
		require.Contains(t, errs, "there is no pool nonesuch: `reelay pools` lists them")
	})
}
