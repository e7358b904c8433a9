package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

// machinesOf is a pool whose machines run 4 workers with 2 GPUs each. Each text is a machine: the
// first letters of its workers' states, idle for as many hours as its place from the end.
func machinesOf(most int, machines ...string) poolState {
	p := poolOf(0, most, "m")
	p.pool.Name, p.pool.WorkersPerMachine, p.pool.GPUsPerWorker = "p", 4, 2
	for at, machine := range machines {
		for slot, state := range machine {
			status := map[rune]models.WorkerStatus{'i': idle, 'b': busy, 'o': booting, 'd': models.WorkerDraining, 'l': models.WorkerLost}[state]
			p.workers = append(p.workers, &models.Worker{
				ID: models.WorkerID(fmt.Sprintf("%d.%d", at, slot)), ProviderInstanceID: fmt.Sprint(at), Slot: slot, Status: status,
				IdleSince: planned.Add(-time.Duration(len(machines)-at) * time.Hour),
			})
		}
	}
	return p
}

var planned = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func TestPlanOfMachines(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		pool   poolState
		jobs   float64 // of CRITICAL: each needs a worker
		create int
		drain  []models.WorkerID
	}{
		"RoundsUpToMachines":           {machinesOf(8), 1, 4, nil},
		"NeverPassesTheLimit":          {machinesOf(8, "bbb", "bbb"), 2, 0, nil},
		"FillsUpToTheLimit":            {machinesOf(8, "bbbb"), 9, 4, nil},
		"DrainsAWholeMachine":          {machinesOf(8, "iiii", "biii"), 0, 0, []models.WorkerID{"0.0", "0.1", "0.2", "0.3"}},
		"NeverABusyWorkersMachine":     {machinesOf(8, "iiib", "iiio"), 0, 0, nil},
		"KeepsWhatIsNeeded":            {machinesOf(8, "iiii"), 1, 0, nil},
		"LongestIdleMachineFirst":      {machinesOf(12, "iiii", "iiii", "bbbb"), 1, 0, []models.WorkerID{"0.0", "0.1", "0.2", "0.3"}},
		"WhatIsGoneOrGoesHoldsNothing": {machinesOf(8, "iidl"), 0, 0, []models.WorkerID{"0.0", "0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := snapshot{now: planned, pools: []poolState{c.pool}}
			if c.jobs > 0 {
				s.queues = []backlog.QueueDemand{queueOf("CRITICAL", "m", c.jobs, c.jobs)}
			}
			got := plan(s)[0]

			require.Equal(t, c.create, got.create(), got.reason)
			require.Equal(t, c.drain, got.drain, got.reason)
		})
	}

	reason := plan(snapshot{now: planned, pools: []poolState{machinesOf(8)},
		queues: []backlog.QueueDemand{queueOf("CRITICAL", "m", 5, 5)}})[0].reason
	require.Contains(t, reason, "A machine runs 4 workers: the scaler creates 2 machines.")
}

func TestBootingWorkers(t *testing.T) {
	t.Parallel()

	pool := machinesOf(8).pool
	workers := bootingWorkers(pool, 8, time.Now())
	for i, w := range workers {
		require.Equal(t, []int{i % 4, 2}, []int{w.Slot, w.GPUCount})
		require.Equal(t, workers[i/4*4].ProviderInstanceID, w.ProviderInstanceID)
	}
	require.NotEqual(t, workers[0].ProviderInstanceID, workers[4].ProviderInstanceID)
	arguments := AgentArguments("command", pool, "p-1")
	require.Equal(t, []string{"--workers", "4", "--gpus-per-worker", "2"}, arguments[len(arguments)-4:])
	pool.WorkersPerMachine, pool.GPUsPerWorker = 1, 1
	require.NotContains(t, AgentArguments("command", pool, "p-1"), "--workers")
}
