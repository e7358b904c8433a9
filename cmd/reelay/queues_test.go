package main

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

func TestPoolsCommand(t *testing.T) {
	t.Parallel()

	const pool = `{"id": "p", "name": "h200", "provider": "static", "region": "local", "gpuType": "any", "capacityClass": "SPOT",
		"models": ["drill"], "minWorkers": 0, "maxWorkers": 4, "desired": 2, "booting": 0, "idle": 1, "busy": 1, "draining": 0,
		"state": "ACTIVE", "warnings": [], "checkpointPlans": [{"model": "drill", "saveSeconds": 0.25, "saves": 31, "losses": 2, "busyHours": 8, "hoursBetweenLosses": 4,
			"intervalSeconds": 85, "overhead": 0.0059}]}`

	for name, c := range map[string]struct {
		data  string
		args  []string
		shows string
	}{
		"table":       {`{"pools": [` + pool + `]}`, nil, `h200 +active +static +SPOT +any +0 +1 +1 +0 +0 to 4 +\$0 +drill`},
		"checkpoints": {`{"pools": [` + pool + `]}`, []string{"checkpoints"}, `h200 +drill +85 s +0.25 s +1 in 4 busy h +0.6 %`},
		"JSON":        {`{"pools": [` + pool + `]}`, []string{"--json"}, `"intervalSeconds": 85`},
		"checkpoints as JSON": {
			`{"pools": [` + pool + `]}`, []string{"checkpoints", "--json"}, `(?s)"pool": "h200".*"intervalSeconds": 85`,
		},
		"a model without checkpoints": {
			`{"pools": [` + strings.Replace(pool, `"saves": 31`, `"saves": 0`, 1) + `]}`, []string{"checkpoints"}, `drill +- +- +1 in 4 busy h +-`,
		},
		"none": {`{"pools": []}`, nil, `No pools\.`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := answering(t, c.data)

			status, out, errs := call(t, t.Context(), append(append([]string{"pools"}, c.args...), "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			require.Regexp(t, c.shows, out+errs)
		})
	}
}

func TestQueuesCommand(t *testing.T) {
	t.Parallel()

	const pause = `{"tier": "PRO", "model": null, "by": "night shift", "at": "2026-01-31T12:00:00Z", "reason": "storage is full"}`
	const paused = `{"tier": "PRO", "model": "testcard", "depth": 3, "running": 1, "oldestWaitSeconds": 4, "paused": true, "pause": ` + pause +
		`}`
	const empty = `{"tier": "FREE", "model": null, "depth": 0, "running": 0, "oldestWaitSeconds": null, "paused": true, "pause":
		{"tier": "FREE", "model": null, "by": "up operator", "at": "2026-01-31T12:00:00Z", "reason": null}}`
	const active = `{"tier": "BATCH", "model": "drill", "depth": 0, "running": 1, "oldestWaitSeconds": null, "paused": false, "pause": null}`

	for name, c := range map[string]struct {
		args      []string
		data      string
		shows     []string
		variables map[string]any
	}{
		"list": {
			nil, `{"queues": [` + paused + `,` + empty + `,` + active + `]}`,
			[]string{`PRO +testcard +3 +1 .*lane paused by night shift \d+ days ago: storage is full`, `FREE +all +0 +0 +- +paused by up operator`,
				`BATCH +drill .* active\n`}, nil,
		},
		"how long they take": {
			[]string{"-o", "wide"}, `{"queues": [` + strings.Join([]string{
				`{"tier": "PRO", "model": "testcard", "depth": 3, "drainLeavesOut": [{"reason": "PAUSED", "jobs": 3}]}`,
				`{"tier": "FREE", "model": "testcard", "depth": 3, "drainLeavesOut": [{"reason": "HALTED", "jobs": 3}]}`,
				`{"tier": "BATCH", "model": "own", "depth": 3, "drainLeavesOut": [{"reason": "PAUSED", "jobs": 1}, {"reason": "NO_CAPACITY", "jobs": 2}]}`,
				`{"tier": "BATCH", "model": "cold", "depth": 3, "drainLeavesOut": [{"reason": "NO_WORKER", "jobs": 3}]}`,
				`{"tier": "BATCH", "model": "drill", "depth": 3, "estimatedDrainSeconds": 60, "drainLeavesOut": [{"reason": "PAUSED", "jobs": 1}]}`,
			}, ",") + `]}`,
			[]string{`PRO .* not until resumed `, `FREE .* not until resumed `, `own .* never `, `cold +3 +0 +0 +- +- `, `drill .* 1 min 00 s `},
			nil,
		},
		"jobs that wait for a provider": {
			[]string{"-o", "wide"}, `{"queues": [{"tier": "PRO", "model": "veo", "depth": 12, "running": 5, "providerWait":
				{"jobs": 12, "code": "PROVIDER_SLOT", "message": "All 5 slots at Veo are taken.", "change": "Wait."}}]}`,
			[]string{`FOR A PROVIDER +STATE`, `veo .* 12 +12 wait: All 5 slots at Veo are taken\n`}, nil,
		},
		"list as JSON": {[]string{"--json"}, `{"queues": [` + paused + `]}`, []string{`"paused": true`, `"by": "night shift"`,
			`"reason": "storage is full"`}, nil},
		"pause": {
			[]string{"pause", "pro", "--model", "testcard", "--reason", "storage is full"}, `{"pauseQueue": ` + paused + `}`,
			[]string{"Paused testcard in the pro lane: 3 queued, 1 running. Running jobs continue."},
			map[string]any{"tier": "PRO", "model": "testcard", "reason": "storage is full"},
		},
		"resume": {
			[]string{"resume", "BATCH"}, `{"resumeQueue": ` + active + `}`, []string{"Resumed the batch lane: 0 queued."},
			map[string]any{"tier": "BATCH"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, variables := answering(t, c.data)

			status, out, errs := call(t, t.Context(), append(append([]string{"queues"}, c.args...), "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			for _, shown := range c.shows {
				require.Regexp(t, shown, out)
			}
			require.Equal(t, c.variables, *variables)
		})
	}

	t.Run("RefusesALaneThatDoesNotExist", func(t *testing.T) {
		t.Parallel()

		for _, args := range [][]string{{"queues", "pause", "gold"}, {"queues", "resume"}, {"queues", "halt"}} {
			status, _, errs := call(t, t.Context(), args...)

			require.Equal(t, terminal.ExitUsage, status, errs)
		}
	})
}
