package fleet

import (
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
)

// Snapshot is the input of the scaler's plan. `reelay simulate` makes one without a database.
type Snapshot = snapshot

// PlanInput contains the policy of a plan and what it needs of the past.
type PlanInput struct {
	Policy Policy
	// Expected are the jobs that will arrive while a worker boots: see Forecast.
	Expected []Expected
	// Preempted is the rate of preemptions of spot workers in the last hour, by region.
	Preempted map[string]capacity.PreemptionRate
	// If Impatient is set, BATCH jobs do not wait for cheaper machines.
	Impatient bool
}

// NewSnapshot returns a snapshot without pools.
func NewSnapshot(now time.Time, queues []backlog.QueueDemand, times estimate.RenderTimes, o PlanInput) *Snapshot {
	return &snapshot{now: now, queues: queues, times: times, policy: o.Policy, expected: o.Expected, preempted: o.Preempted,
		impatient: o.Impatient}
}

// Add adds a pool and its workers that do not leave. ending is for how many others machines are still
// paid for. patient of the busy ones run BATCH jobs, and new ones take as long as start. The plan uses
// only the id, the status and the idle time of a worker.
func (s *snapshot) Add(pool *capacity.Pool, workers []*models.Worker, ending, patient int, start Start) {
	s.pools = append(s.pools, poolState{pool: pool, workers: workers, ending: ending, patient: patient, start: start})
}

// Decision is the plan for one pool.
type Decision struct {
	// Create is how many workers to boot.
	Create int
	// Drain lists the workers that leave: idle ones, and of a pool that is too dear also busy ones once
	// they have ended their jobs.
	Drain []models.WorkerID
	// Stay is how long an idle worker of the pool stays.
	Stay time.Duration
	// Closed means that the pool may have no workers now.
	Closed bool
	Reason string
}

// Plan returns the scaler's plan: one decision for each pool, in their order.
func Plan(s *Snapshot) []Decision {
	var all []Decision
	for _, d := range plan(*s) {
		all = append(all, Decision{Create: d.create(), Drain: d.drain, Stay: d.stay.limit, Closed: d.closed != "", Reason: d.reason})
	}
	return all
}

// FilePool is a pool in a file of pools.
type FilePool = filePool

// Spec returns the pool of a file, with defaults for omitted fields. It returns INVALID_INPUT of
// the first invalid field. Every provider is accepted, also none.
func Spec(f FilePool, known *catalogue.Snapshot) (capacity.PoolSpec, error) {
	spec := f.spec()
	any := &Pools{Catalogue: catalogue.Of(known), Checks: map[string]func(*capacity.Pool) error{spec.Provider: nil}}
	return spec, any.check(&capacity.Pool{PoolSpec: spec})
}

// Answered records a provider's answer to a request for the machines of n workers, of which it created some, as the
// scaler does in the database. class is that of its refusal of the others. A pool that got none gets
// no machines for a time that doubles with each such refusal in a row.
func Answered(p *capacity.Pool, created, n int, class ErrorClass, now time.Time) {
	b := &p.PoolBackoff
	switch {
	case created == n:
		*b = capacity.PoolBackoff{GrowBy: growBy(p, n/perMachine(p))}
	case created > 0:
		*b = capacity.PoolBackoff{BackoffUntil: now.Add(pauses[class].first), BackoffClass: string(class), GrowBy: 1}
	default:
		b.BackoffUntil, b.BackoffClass, b.GrowBy = now.Add(pauses[class].after(b.Refusals)), string(class), 1
		b.Refusals++
	}
}

// BootEnded records that a machine created at a given time ended without starting, as the scaler
// does in the database. BootStarted records that one has started.
func BootEnded(p *capacity.Pool, created, now time.Time) {
	lease.CountBootFailure(&p.PoolBoots, now, created, "it took too long", false)
}

// BootStarted clears the boot failures of a pool.
func BootStarted(p *capacity.Pool) { p.PoolBoots = capacity.PoolBoots{} }
