package fleet

import (
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
)

// Snapshot is what the scaler decides from, for callers that keep no database: `reelay simulate`.
type Snapshot struct {
	Now    time.Time
	Pools  []PoolWorkers
	Queues []models.QueueDemand
	Times  estimate.RenderTimes
	// Impatient has jobs of BATCH boot machines although cheaper ones are expected.
	Impatient bool
}

// PoolWorkers is a pool and its workers that have not ended. Of a worker the plan reads the id,
// the status and since when it is idle.
type PoolWorkers struct {
	Pool    *models.Pool
	Workers []*models.Worker
}

// Decision is what the scaler does to one pool.
type Decision struct {
	// Create is how many workers to boot.
	Create int
	// Drain lists the idle workers that leave.
	Drain []models.WorkerID
	// Closed means that the pool may have no workers now.
	Closed bool
	Reason string
}

// Plan is the scaler's plan: one decision for each pool, in their order.
func Plan(s Snapshot) []Decision {
	in := snapshot{now: s.Now, queues: s.Queues, times: s.Times, impatient: s.Impatient}
	for _, p := range s.Pools {
		in.pools = append(in.pools, poolState{pool: p.Pool, workers: p.Workers})
	}
	var all []Decision
	for _, d := range plan(in) {
		all = append(all, Decision{Create: d.create(), Drain: d.drain, Closed: d.closed != "", Reason: d.reason})
	}
	return all
}

// FilePool is a pool as a file of pools describes it.
type FilePool = filePool

// Spec returns the pool of a file with the defaults for what it leaves out. It returns an
// INVALID_INPUT of the first field that is wrong. Any provider will do, also none.
func Spec(f FilePool, known *catalogue.Snapshot) (models.PoolSpec, error) {
	spec := f.spec()
	any := &Pools{Catalogue: catalogue.Of(known), Checks: map[string]func(*models.Pool) error{spec.Provider: nil}}
	return spec, any.check(&models.Pool{PoolSpec: spec})
}

// Answered records what a provider did with the machines that it was asked for, as the scaler
// does in the database: class is that of its refusal, or empty if it created them all. A pool
// that is refused gets no machines for a time that doubles with each refusal in a row.
func Answered(p *models.Pool, class ErrorClass, now time.Time) {
	if class == "" {
		p.PoolBackoff = models.PoolBackoff{}
		return
	}
	p.BackoffUntil, p.BackoffClass = now.Add(pauses[class].after(p.Refusals)), string(class)
	p.Refusals++
}
