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
		"pause": {[]string{"pause", "pol_1"}, `{"pools": [` + pool + `], "pausePool": ` + pool + `}`,
			`Paused the pool l4-spot: 0 booting, 1 idle, 2 busy, 0 draining`, map[string]any{"id": "pol_1"}},
		"show a paused one": {
			[]string{"show", "l4-spot"},
			`{"pools": [` + strings.Replace(pool, `"paused": false, "state": "CLOSED_BY_HOURS"`,
				`"paused": true, "pausedAt": "2026-01-31T12:00:00Z", "pausedBy": "night shift", "state": "PAUSED"`, 1) +
				`], "pool": {"scalingHistory": []}}`,
			`state +paused\npaused +.* ago by night shift\n`, nil,
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

	t.Run("SaysThatThereIsNoSuchPool", func(t *testing.T) {
		t.Parallel()
		url, _ := answering(t, `{"pools": []}`)

		status, _, errs := call(t, t.Context(), "pools", "pause", "nonesuch", "--endpoint", url, "--key", "rl_x")

		require.NotZero(t, status)
		require.Contains(t, errs, "there is no pool nonesuch: `reelay pools` lists them")
	})
}
