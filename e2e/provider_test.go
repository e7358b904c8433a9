package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// machines returns the process ids of all machines that the fake cloud has, by instance id.
func machines(t *testing.T, folder string) map[string]int {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	all := map[string]int{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		machine := struct{ PID int }{}
		if err == nil && !strings.Contains(entry.Name(), ".") && json.Unmarshal(text, &machine) == nil {
			all[entry.Name()] = machine.PID
		}
	}
	return all
}

// TestCommandProvider runs workers on the fake cloud of the provider `command`.
func TestCommandProvider(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Abs("../gpu/provider/command/examples")
	require.NoError(t, err)
	cloud, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	s, err := launchWith([]string{
		"REELAY_PROVIDERS=" + programs, "REELAY_AGENT_KEY_FILE=" + key, "FAKE_CLOUD=" + cloud, "FAKE_CLOUD_AGENT=" + reelay + " agent",
	}, dataDir(t), "--agents", "0")
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, pid := range machines(t, cloud) {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // what a failed test left behind
		}
	})
	s.endWith(t)
	require.NoError(t, os.WriteFile(key, []byte(s.keys.WorkerKey), 0o600))
	operate := func(query string, variables map[string]any, data any) {
		s.ask(t.Context(), t, s.keys.OperatorKey, query, variables, data)
	}
	type edge struct {
		Node struct {
			Provider, ProviderInstanceID, Status string
			Slot                                 int
		}
	}
	workers := struct {
		Workers struct{ Edges []edge }
	}{}
	operate(`mutation ($source: String!) { applyPools(input: {source: $source}) { kind } }`, map[string]any{"source": `
pools:
  - name: clouds
    provider: command
    region: here
    gpuType: none
    models: [testcard]
    maxWorkers: 2
    workersPerMachine: 2
    settings: {program: fake-cloud}`}, &struct{}{})
	c := s.client(t)

	job := submit(t, c, "a cloud", 4, 0.5)
	until(t, c, job, func(job *client.Job) bool { return job.Status == client.JobStatusRunning })
	list := func() int {
		operate(`{ workers(first: 10) { edges { node { provider providerInstanceID: providerInstanceId slot status } } } }`, nil, &workers)
		return len(workers.Workers.Edges)
	}
	testrun.Eventually(t, "both workers of the machine register", func() bool {
		return list() == 2 && !slices.ContainsFunc(workers.Workers.Edges, func(e edge) bool { return e.Node.Status == "BOOTING" })
	})
	worker, other := workers.Workers.Edges[0].Node, workers.Workers.Edges[1].Node
	first := worker.ProviderInstanceID
	require.Equal(t, "command", worker.Provider)
	require.Equal(t, first, other.ProviderInstanceID, "one machine runs both")
	require.ElementsMatch(t, []int{0, 1}, []int{worker.Slot, other.Slot})
	require.Contains(t, machines(t, cloud), first)
	require.NoError(t, syscall.Kill(-machines(t, cloud)[first], syscall.SIGKILL))
	done := until(t, c, job, func(job *client.Job) bool { return job.Status == client.JobStatusCompleted })

	require.Equal(t, 2, done.AttemptNo)
	booted := machines(t, cloud)
	delete(booted, first)
	require.Len(t, booted, 1, "a second machine went on with the job")
	pools := struct{ Pools []struct{ ID, Name string } }{}
	operate(`{ pools { id name } }`, nil, &pools)
	for _, pool := range pools.Pools {
		if pool.Name == "clouds" {
			operate(`mutation ($id: ID!) { pausePool(id: $id) { id } }`, map[string]any{"id": pool.ID}, &struct{}{})
		}
	}
	for _, pid := range booted {
		testrun.Eventually(t, "the machine ends with its pool", func() bool { return !alive(pid) })
	}
	log, err := os.ReadFile(filepath.Join(cloud, first+".log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), s.keys.WorkerKey)
}
