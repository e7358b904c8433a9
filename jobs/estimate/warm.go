package estimate

import (
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// MinLoad is the shortest load that is worth a wait for a worker that has the model in memory.
	MinLoad = 10 * time.Second
	// MaxLoad bounds measured loads. Longer ones count as this long.
	MaxLoad = 30 * time.Minute
)

// warmth records which workers have which models in memory, when these workers are free, and how
// long loading a model elsewhere takes. It does not change after it is read.
type warmth struct {
	at      time.Time
	workers []warmWorker
	loads   map[loadKey]float64 // in seconds
	times   RenderTimes
}

// warmWorker is a worker with models in memory. It is free this many seconds after at.
type warmWorker struct {
	catalogue.Capability
	id     models.WorkerID
	models []string
	free   float64
}

type loadKey struct {
	pool           models.PoolID
	gpuType, model string
}

func readLoads(ctx context.Context, db bun.IDB) (map[loadKey]float64, error) {
	known, err := models.ListModelLoads(ctx, db)
	loads := map[loadKey]float64{}
	for _, m := range known {
		loads[loadKey{m.PoolID, m.GPUType, m.Model}] = LoadTimeOf(m).Seconds
	}
	return loads, err
}

// WarmWait says that a job should wait for a worker that has its model in memory.
type WarmWait struct {
	WorkerID models.WorkerID
	// Free is the expected time until the worker is free, and Left the longest time that the job
	// should wait from now. Both are at least 0.
	Free, Left time.Duration
	// Load is how long loading the model elsewhere takes.
	Load time.Duration
}

// WarmFor returns the worker for which a job should wait instead of having its model loaded by
// another one. waited is how long the job has waited, and target the wait target of its lane, or
// negative without one. WarmFor returns false unless
//
//   - the load is known to take at least MinLoad on the other worker,
//   - the job has waited less than the load takes and less than target, would not expire, and
//     keeps its slack (a job without slack does not wait),
//   - a busy worker has the model in memory, can run the job, and should be free before all of
//     these and before the load would end, and no idle worker has the model.
//
// on is the other worker; nil means the one that loads the model fastest. The workers in taken are
// reserved for other jobs.
func (e *Estimator) WarmFor(job *models.Job, on *models.Worker, waited, target time.Duration, taken ...models.WorkerID) (best WarmWait,
	ok bool) {
	if e == nil || job.Needs.Now() {
		return best, false
	}
	e.asked.Store(true)
	known := e.warmth.Load()
	if known == nil {
		return best, false
	}
	age := time.Since(known.at)
	load := known.load(job.Model, on)
	left := load - waited
	if target >= 0 {
		left = min(left, target-waited)
	}
	for _, end := range []time.Time{lo.Ternary(job.StartedAt.IsZero(), job.ExpiresAt, time.Time{}), job.SlackUntil} {
		if !end.IsZero() {
			left = min(left, end.Sub(job.QueuedAt)-waited)
		}
	}
	if age > staleAfter || load < MinLoad || left <= 0 {
		return best, false
	}
	for _, h := range known.workers {
		if on != nil && h.id == on.ID || h.id == job.AvoidWorkerID || slices.Contains(taken, h.id) || !slices.Contains(h.models, job.Model) ||
			!h.Serves(job.Queue(), job.AccountID) {
			continue
		}
		if h.free == 0 {
			return best, false
		}
		if free := time.Duration(h.free*float64(time.Second)) - age; free > 0 && free < left && (!ok || free < best.Free) {
			best, ok = WarmWait{WorkerID: h.id, Free: free, Left: left, Load: load}, true
		}
	}
	return best, ok
}

// load returns how long a worker takes to load a model, or 0 if that is unknown.
func (w *warmth) load(model string, on *models.Worker) time.Duration {
	seconds := 0.0
	if on != nil {
		seconds = w.loads[loadKey{on.PoolID, on.GPUType, model}]
	} else {
		for key, s := range w.loads {
			if key.model == model && (seconds == 0 || s < seconds) {
				seconds = s
			}
		}
	}
	return min(time.Duration(seconds*float64(time.Second)), MaxLoad)
}
