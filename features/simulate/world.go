package simulate

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
)

// kind describes jobs with equal properties.
type kind struct {
	backlog.Kind
	model    int     // index of the model
	estimate float64 // GPU seconds, by the catalogue
}

type jobState int

const (
	coming jobState = iota
	queued
	working
	completed
)

// job is one job. Its times are in seconds from the beginning.
type job struct {
	*account
	kind    *kind
	lane    models.Tier
	order   int64
	seq     int64
	state   jobState
	place   *place
	arrived float64
	started float64 // when a worker first took it, or NaN
	ended   float64
	work    float64 // seconds, at ratio 1
	left    float64 // seconds of it that are in no checkpoint
	saved   bool    // there is a checkpoint
	queuing int     // number of times it was queued
	lost    float64 // when its work was last interrupted, or NaN
	// finishBy is the deadline, or +Inf. needs is an index of needsOfJobs.
	finishBy float64
	needs    int
}

// pool is a pool and its workers that have not ended.
type pool struct {
	*capacity.Pool
	index   int
	offer   models.Offer
	serves  []bool // by class of job
	ratio   float64
	workers []*worker
	idle    []*worker // in the order in which they became idle
	random  *rand.Rand
	records []*models.CheckpointRecord // by model
	boots   []float64                  // the last boots, in seconds
	loads   []float64                  // the last loads, in seconds
	stay    float64                    // how long idle workers stay, in seconds
	trace   *Trace
	first   float64         // price per hour, before it changes
	down    int             // number of its current outages and stockouts
	lives   []estimate.Life // of its newest workers that have ended
	ending  int             // machines without a worker that are still paid for
	// priceSince and priceSum integrate the price: one machine from the beginning to
	// priceSince costs priceSum.
	priceSince, priceSum float64
}

// paid returns what one machine of the pool costs from the beginning to a time, if the price does
// not change.
func (p *pool) paid(at float64) float64 {
	return p.priceSum + (at-p.priceSince)*p.PricePerHourUSD/3600
}

// worker is one machine.
type worker struct {
	models.Worker
	pool     *pool
	born     float64
	bornPaid float64 // what a machine of the pool had cost then, from the beginning
	since    float64 // when it became idle
	loaded   int     // the model in its memory, or -1
	attempt  *attempt
	noticed  bool
	taken    bool // it was preempted
	leaves   bool // it leaves when its job ends
	charged  float64
}

// attempt is a job on a worker.
type attempt struct {
	*job
	worker    *worker
	began     float64
	rendering float64 // when the render begins
	ratio     float64
	interval  float64 // seconds of render between two checkpoints, or +Inf
	save      float64
	saves     int
	end       float64
}

// sim is a run.
type sim struct {
	*Scenario
	result  *Result
	now     float64
	events  events
	serial  int64
	lines   *lines
	jobs    []*job
	arrived int
	left    int // jobs that have not ended
	pools   []*pool
	byID    map[models.WorkerID]*worker
	demand  map[demandKey]*backlog.QueueDemand
	order   []demandKey
	learned map[learnedKey]*backlog.RenderTime
	rounds  rounds
	names   []string // of models
	born    int
	recover []float64
	// unnoticed contains the jobs whose loss is undetected.
	unnoticed map[*job]bool
	queues    map[models.Tier]int
	until     float64
	past      past
}

type demandKey struct {
	lane models.Tier
	backlog.Kind
	needs int
}

type learnedKey struct {
	backlog.Kind
	gpu string
}

// event is an action at a time.
type event struct {
	at  float64
	seq int64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	popped := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return popped
}

// later schedules do at a time. Events of the same time run in the order in which they were
// scheduled.
func (s *sim) later(at float64, do func()) {
	s.serial++
	heap.Push(&s.events, event{max(at, s.now), s.serial, do})
}

// epoch is the beginning of a run: a Monday, in UTC.
var epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// clock returns a moment of the run as a time.
func clock(at float64) time.Time { return epoch.Add(time.Duration(at * float64(time.Second))) }

// newSim prepares a run: its jobs, and the events of its machines.
func newSim(sc *Scenario) *sim {
	s := &sim{
		Scenario: sc, result: &Result{}, byID: map[models.WorkerID]*worker{}, demand: map[demandKey]*backlog.QueueDemand{},
		learned: map[learnedKey]*backlog.RenderTime{}, queues: map[models.Tier]int{}, unnoticed: map[*job]bool{},
		until: sc.Hours*3600*2 + 7*24*3600,
	}
	for _, w := range sc.Workload {
		if !slices.Contains(s.names, w.Model) {
			s.names = append(s.names, w.Model)
		}
	}
	s.lines = newLines(len(s.names) * len(needsOfJobs))
	s.makeJobs()
	s.past = s.newPast()
	for i, spec := range sc.pools {
		s.makePool(i, spec)
	}
	s.schedule()
	return s
}

// stream returns a separate stream of random numbers for a purpose.
func (s *sim) stream(purpose, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, purpose<<32|index))
}

func (s *sim) makePool(i int, spec capacity.PoolSpec) {
	p := &pool{
		Pool: &capacity.Pool{ID: models.PoolID(spec.Name), PoolSpec: spec}, index: i, offer: spec.Offer(), ratio: 1, first: spec.PricePerHourUSD,
		random: s.stream(1, uint64(i)),
	}
	if ratio, known := s.Machines.GPUs[spec.GPUType]; known {
		p.ratio = ratio
	}
	for _, name := range s.names {
		for _, needs := range needsOfJobs {
			p.serves = append(p.serves, slices.Contains(spec.Models, name) && p.offer.Meets(needs))
		}
		p.records = append(p.records, &models.CheckpointRecord{Pool: spec.Name, Model: name, CapacityClass: spec.CapacityClass})
	}
	for t := range s.Traces {
		if s.Traces[t].Pool == spec.Name {
			p.trace = &s.Traces[t]
		}
	}
	s.pools = append(s.pools, p)
}

// makeJobs makes the jobs of all workloads, in the order in which they arrive.
func (s *sim) makeJobs() {
	for i, w := range s.Workload {
		random := s.stream(2, uint64(i))
		k := &kind{model: slices.Index(s.names, w.Model), estimate: s.gpuSeconds(w)}
		k.Model, k.TimeClass = w.Model, s.timeClass(w)
		accounts := make([]*account, w.Accounts)
		for a := range accounts {
			accounts[a] = newAccount(w.Tier)
		}
		for _, at := range w.arrivals(s.Hours, random) {
			j := &job{
				account: accounts[random.IntN(len(accounts))], kind: k, lane: w.Tier, arrived: at, started: math.NaN(), lost: math.NaN(),
				work: max(k.estimate*s.Machines.Render.draw(random.NormFloat64()), 1e-3), finishBy: math.Inf(1),
			}
			if j.left = j.work; w.FinishByHours > 0 {
				j.finishBy = at + w.FinishByHours*3600
			}
			s.jobs = append(s.jobs, j)
		}
	}
	slices.SortStableFunc(s.jobs, func(a, b *job) int { return cmp.Compare(a.arrived, b.arrived) })
	for i, j := range s.jobs {
		j.seq, j.order = int64(i), int64(i)
	}
	s.left = len(s.jobs)
}

// gpuSeconds returns the work of a job: from the scenario, or from the catalogue.
func (s *sim) gpuSeconds(w Workload) float64 {
	if w.GPUSeconds > 0 {
		return w.GPUSeconds
	}
	model, err := s.known.Model(w.Model)
	if err != nil {
		return 1 // Read has checked it
	}
	return model.EstimateGPUSeconds(w.params())
}

// timeClass returns the class of a workload's jobs by their render times.
func (s *sim) timeClass(w Workload) string {
	model, err := s.known.Model(w.Model)
	if err != nil {
		return ""
	}
	return model.TimeClass(w.params())
}

// params returns the parameters of a workload's jobs.
func (w Workload) params() json.RawMessage {
	params := map[string]any{}
	if w.DurationSeconds > 0 {
		params["durationSeconds"] = w.DurationSeconds
	}
	if w.Resolution != "" {
		params["resolution"] = w.Resolution
	}
	raw, _ := json.Marshal(params) // numbers and texts
	return raw
}

// arrivals returns when the jobs of a workload arrive, in seconds.
func (w Workload) arrivals(hours float64, random *rand.Rand) []float64 {
	if w.times != nil {
		return w.times
	}
	a, all := w.Arrivals, make([]float64, w.Jobs)
	swing := (a.PeakRatio - 1) / (a.PeakRatio + 1)
	for i := range all {
		switch a.Shape {
		case "burst":
			all[i] = a.AtHour*3600 + random.Float64()*a.Minutes*60
		case "diurnal":
			for {
				at := random.Float64() * hours
				if rate := 1 + swing*math.Cos(2*math.Pi*(at-a.PeakHour)/24); random.Float64()*(1+swing) <= rate {
					all[i] = at * 3600
					break
				}
			}
		default:
			all[i] = random.Float64() * hours * 3600
		}
	}
	return all
}

// interval returns the seconds between two checkpoints on a worker of a pool.
func (s *sim) interval(p *pool, model int) float64 {
	switch s.Policy.Save {
	case "none":
		return math.Inf(1)
	case "fixed":
		return s.Policy.Seconds
	}
	return checkpoints.PlanOf(p.records[model]).IntervalSeconds
}

// patience returns after which time in the queue a job of a tier moves from a lane to the next, as
// [pass.Promoter] does.
func patience(tier, lane models.Tier) (after float64, next models.Tier, moves bool) {
	for l := slices.Index(models.Tiers, tier); l > 1; l-- {
		wait := jobs.Policies[models.Tiers[l]].Patience
		if wait == 0 {
			break
		}
		after += wait.Seconds()
		if models.Tiers[l] == lane {
			return after, models.Tiers[l-1], true
		}
	}
	return 0, "", false
}
