package fleet

import (
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
)

// Snapshot is what the scaler decides from. `reelay simulate` makes one without a database.
type Snapshot = snapshot

// Outlook is what a plan needs of the past: see Policy.
type Outlook struct {
	Policy Policy
	// Expected are the jobs that will come while a worker boots: see Forecast.
	Expected []Expected
	// Preempted is how often the spot workers of each region were preempted in the last hour.
	Preempted map[string]models.PreemptionRate
	// Impatient has jobs of BATCH boot machines although cheaper ones are expected.
	Impatient bool
}

// NewSnapshot returns a snapshot without pools.
func NewSnapshot(now time.Time, queues []models.QueueDemand, times estimate.RenderTimes, o Outlook) *Snapshot {
	return &snapshot{now: now, queues: queues, times: times, policy: o.Policy, expected: o.Expected, preempted: o.Preempted, impatient: o.Impatient}
}

// Add adds a pool and its workers that have not ended; patient of the busy ones run jobs of BATCH.
// Of a worker the plan reads the id, the status and since when it is idle.
func (s *snapshot) Add(pool *models.Pool, workers []*models.Worker, patient int) {
	s.pools = append(s.pools, poolState{pool: pool, workers: workers, patient: patient})
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
func Plan(s *Snapshot) []Decision {
	var all []Decision
	for _, d := range plan(*s) {
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

// BootEnded records that a machine that was created at a time has ended without starting, as the scaler
// does in the database; BootStarted, that one has started.
func BootEnded(p *models.Pool, created, now time.Time) {
	lease.CountBootFailure(&p.PoolBoots, now, created, "it took too long", false)
}

// BootStarted ends the caution with a pool whose machines did not start.
func BootStarted(p *models.Pool) { p.PoolBoots = models.PoolBoots{} }
