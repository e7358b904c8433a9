package main

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestWorkersCommand(t *testing.T) {
	t.Parallel()

	const worker = `{"id": "w", "pool": null, "provider": "static", "providerInstanceId": "i-1", "region": "local", "zone": null, "gpuType": "H100",
		"capacityClass": "SPOT", "status": "BUSY", "currentJob": null, "models": [], "warmModels": [], "registeredAt": null, "lastHeartbeatAt": null,
		"drainDeadline": null, "agentVersion": "1.2", "jobsCompleted": 7, "gpuSeconds": 1, "gpus": `
	for name, c := range map[string]struct{ gpus, shows string }{
		"two GPUs": {`[{"index": 0, "utilization": 1, "memoryUsedBytes": "68719476736", "memoryTotalBytes": "85899345920", "temperatureC": 64, "powerW": 600,
			"eccUncorrected": "0", "xid": null, "at": "2026-01-31T12:00:00Z"},
			{"index": 1, "utilization": 0.5, "memoryUsedBytes": "0", "memoryTotalBytes": "85899345920", "temperatureC": 30, "powerW": 70.4,
			"eccUncorrected": "2", "xid": 79, "at": "2026-01-31T12:00:00Z"}]`, `H100 +75 % +64/160 GiB +64 °C +670 W +2 ECC, XID 79 +- +1.2 +7`},
		"none": {"null", `H100 +- +- +- +- +- +- +1.2 +7`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := answering(t, `{"workers": {"edges": [{"node": `+worker+c.gpus+
				`}}], "pageInfo": {"hasNextPage": false, "endCursor": null}, "totalCount": 1}}`)

			status, out, errs := call(t, t.Context(), "workers", "--output", "wide", "--endpoint", url, "--key", "rl_x")

			require.Zero(t, status, errs)
			require.Regexp(t, c.shows, out)
		})
	}

	busy := strings.Replace(worker, `"currentJob": null`, `"currentJob": {"id": "job_1"}`, 1) + "null}"
	for name, c := range map[string]struct {
		args      []string
		data      string
		shows     string
		variables map[string]any
	}{
		"list": {[]string{"--status", "lost", "--zone", "us-1a", "--gpu-type", "H100", "--agent-version", "1.2", "--quarantined"},
			`{"workers": {"edges": [{"node": ` + busy + `}], "pageInfo": {"hasNextPage": false, "endCursor": null}, "totalCount": 1}}`, "job_1",
			map[string]any{"status": []any{"LOST"}, "zone": "us-1a", "gpuType": "H100", "agentVersion": "1.2", "quarantined": true, "first": 50.0}},
		"drain": {[]string{"drain", "wrk_w", "--deadline", "20m"}, `{"drainWorker": ` + busy + `}`, "w drains; it has the job job_1.",
			map[string]any{"id": "wrk_w", "deadlineSeconds": 1200.0}},
		"preempt": {[]string{"preempt", "wrk_w"}, `{"preemptWorker": ` + busy + `}`,
			"w is preempted, and its machine ends in 30 s; it has the job job_1.", map[string]any{"id": "wrk_w", "noticeSeconds": 30.0}},
		"preempt, as JSON": {[]string{"preempt", "wrk_w", "--json"}, `{"preemptWorker": ` + busy + `}`, `"status": "BUSY"`,
			map[string]any{"id": "wrk_w", "noticeSeconds": 30.0}},
		"quarantine": {[]string{"quarantine", "wrk_w", "--for", "2h", "--reason", "loud"}, `{"quarantineWorker": ` + busy + `}`,
			"w gets no jobs for 2 h; it has the job job_1.", map[string]any{"id": "wrk_w", "minutes": 120.0, "reason": "loud"}},
		"release": {[]string{"release", "wrk_w"}, `{"releaseQuarantine": ` + busy + `}`, "w is not in quarantine: it gets jobs.",
			map[string]any{"id": "wrk_w"}},
		"release a drain": {[]string{"release", "wrk_w"}, `{"releaseQuarantine": ` + strings.Replace(busy, "BUSY", "DRAINING", 1) + `}`,
			"w is not in quarantine, but DRAINING: it gets no jobs.", map[string]any{"id": "wrk_w"}},
		"terminate": {[]string{"terminate", "wrk_w"}, `{"terminateWorker": ` + busy + `}`, "w is terminated.",
			map[string]any{"id": "wrk_w"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, variables := answering(t, c.data)

			status, out, errs := call(t, t.Context(), append(append([]string{"workers"}, c.args...), "--endpoint", url, "--key", "rl_x")...)

			require.Zero(t, status, errs)
			require.Contains(t, out, c.shows)
			require.Equal(t, c.variables, *variables)
		})
	}
	for _, args := range [][]string{{"workers", "drain"}, {"workers", "preempt", "a", "b"}, {"workers", "resume", "a"},
		{"workers", "drain", "a", "--deadline", "soon"}} {
		status, _, errs := call(t, t.Context(), args...)

		require.Equal(t, terminal.ExitUsage, status, errs)
	}
}

// The agent, which links no part of the server, says its reason in the server's words.
func TestReasonOfAnIdleAgent(t *testing.T) {
	t.Parallel()
	require.Equal(t, models.LeavesIdle, agent.LeavesIdle)
}
