package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// A pool counts workers, but its provider creates and deletes machines. Each machine of a pool runs
// the same number of workers, in slots from 0.

// perMachine returns how many workers a machine of a pool runs.
func perMachine(p *capacity.Pool) int { return max(1, p.WorkersPerMachine) }

// create returns how many workers to boot: those of whole machines, as many as are needed or
// slightly more, and never more than the pool may have.
func (d *decision) create() int {
	per := perMachine(d.pool)
	wanted, room := max(0, d.workers-d.have()), max(0, d.demand.Max-d.have())
	return min((wanted+per-1)/per, room/per) * per
}

// explainMachines adds to the reason how many machines are booted.
func (d *decision) explainMachines() {
	if per, n := perMachine(d.pool), d.create(); per > 1 && n > 0 {
		d.reason += fmt.Sprintf(" A machine runs %d workers: the scaler creates %s.", per, text.Count(n/per, "machine"))
	}
}

// bootingWorkers returns the rows of n workers that are booted at a time, on machines with new
// names.
func bootingWorkers(pool *capacity.Pool, n int, now time.Time) []*models.Worker {
	var workers []*models.Worker
	machine, per := "", perMachine(pool)
	for i := range n {
		if i%per == 0 {
			machine = NewInstanceID(pool.Name)
		}
		workers = append(workers, &models.Worker{
			ID: models.NewWorkerID(), PoolID: pool.ID, Provider: pool.Provider, GPUCount: max(1, pool.GPUsPerWorker),
			ProviderInstanceID: machine, Slot: i % per, Offer: pool.Offer(now),
			WarmModels: []string{}, Status: models.WorkerBooting,
		})
	}
	return workers
}

// rowsOfMachines returns the rows of the machines of workers that are booted. The workers of a machine are
// neighbours.
func rowsOfMachines(pool *capacity.Pool, workers []*models.Worker) (all []*capacity.Machine) {
	for _, w := range workers {
		if n := len(all); n > 0 && all[n-1].InstanceID == w.ProviderInstanceID {
			all[n-1].Workers++
			continue
		}
		all = append(all, &capacity.Machine{PoolID: pool.ID, Provider: w.Provider, InstanceID: w.ProviderInstanceID, Workers: 1})
	}
	return all
}

// leaving returns up to n idle workers, longest idle first. They are all workers of their machines, so
// that the machines can end: each has then been idle for the limit. In a closed pool, every idle worker leaves.
func (p poolState) leaving(now time.Time, n int, limit time.Duration, closed bool) []models.WorkerID {
	idle := p.longIdle(now, 0, closed)
	if !closed && perMachine(p.pool) > 1 {
		idle = onIdleMachines(p.workers, p.longIdle(now, limit, false), n)
	}
	var ids []models.WorkerID
	for _, w := range idle[:min(max(n, 0), len(idle))] {
		ids = append(ids, w.ID)
	}
	return ids
}

// onIdleMachines returns those of the idle workers whose machine has no booting or busy worker,
// machine by machine, up to n.
func onIdleMachines(all, idle []*models.Worker, n int) []*models.Worker {
	at := func(w *models.Worker) int { return slices.Index(idle, w) }
	last, works := map[string]int{}, map[string]bool{} // by machine; last is the place in idle of the worker that became idle last
	for _, w := range all {
		switch i := at(w); {
		case i >= 0:
			last[machineOf(w)] = max(last[machineOf(w)], i)
		case w.Status == models.WorkerBooting, w.Status == models.WorkerIdle, w.Status == models.WorkerBusy:
			works[machineOf(w)] = true
		}
	}
	byMachine := slices.DeleteFunc(slices.Clone(idle), func(w *models.Worker) bool { return works[machineOf(w)] })
	slices.SortStableFunc(byMachine, func(a, b *models.Worker) int {
		return cmp.Compare(last[machineOf(a)], last[machineOf(b)])
	})
	var whole []*models.Worker
	for len(byMachine) > 0 {
		size := 1
		for size < len(byMachine) && machineOf(byMachine[size]) == machineOf(byMachine[0]) {
			size++
		}
		if len(whole)+size <= n {
			whole = append(whole, byMachine[:size]...)
		}
		byMachine = byMachine[size:]
	}
	return whole
}

// machineOf names the machine of a worker. A simulated worker is its own.
func machineOf(w *models.Worker) string { return cmp.Or(w.ProviderInstanceID, string(w.ID)) }

// vacant returns how many workers' places of a pool's machines are paid for without a worker that
// could take a job: machines that end, and those of workers that drain or are lost.
func (p *poolState) vacant() int {
	places := map[string]int{}
	for _, m := range p.machines {
		places[m.InstanceID] = m.Workers
	}
	for _, w := range p.workers {
		switch w.Status {
		case models.WorkerBooting, models.WorkerIdle, models.WorkerBusy:
			places[w.ProviderInstanceID]--
		}
	}
	n := p.ending
	for _, left := range places {
		n += max(left, 0)
	}
	return n
}
