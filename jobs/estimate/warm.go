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
	// MaxLoad is the longest load that is believed.
	MaxLoad = 30 * time.Minute
)

// warmth is which workers have which models in memory, when they are free, and how long it takes
// to load a model elsewhere. It does not change once it is read.
type warmth struct {
	at    time.Time
	hands []warmHand
	loads map[loadKey]float64 // in seconds
}

// warmHand is a worker with models in memory, which is free so many seconds after at.
type warmHand struct {
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
	// Free is when the worker is expected to be free, and Left the longest that the job should
	// wait from now, both at least 0.
	Free, Left time.Duration
	// Load is how long it takes to load the model elsewhere.
	Load time.Duration
}

// WarmFor returns the worker that a job should wait for instead of having its model loaded by
// another one. waited is how long the job has waited, and target the wait target of its lane, or
// negative without one. There is none unless
//
//   - the load is known to take at least MinLoad on the other worker,
//   - the job has waited for less than the load takes, and for less than target, would not expire,
//     and keeps its slack; a job without slack does not wait,
//   - a busy worker has the model in memory, can run the job, and is expected to be free before
//     either of these ends and before the load would; and none that has it is idle.
//
// on is the other worker; nil stands for the one that loads the model fastest. The workers in taken
// are for other jobs.
func (e *Estimator) WarmFor(job *models.Job, on *models.Worker, waited, target time.Duration, taken ...models.WorkerID) (best WarmWait, ok bool) {
	if e == nil || job.Needs.Now() {
		return best, false
	}
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
	for _, h := range known.hands {
		if on != nil && h.id == on.ID || h.id == job.AvoidWorkerID || slices.Contains(taken, h.id) || !slices.Contains(h.models, job.Model) || !h.Serves(job.Queue(), job.AccountID) {
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
