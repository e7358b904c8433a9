package simulate

import (
	"math"
	"slices"

	"github.com/reelay/reelay/models"
)

// The classes of paid GPU seconds.
const (
	classBoot = iota
	classLoad
	classIdle
	classWasted
	classUseful
	classes
)

// samples is the number of recorded moments for the plots.
const samples = 288

// Result is the result of a run.
type Result struct {
	Scenario string `json:"scenario"`
	// Checkpoints is the policy: adaptive, fixed or none.
	Checkpoints string `json:"checkpoints"`
	Seed        uint64 `json:"seed"`
	// Jobs is how many jobs arrived; each is in one of the next three.
	Jobs       int `json:"jobs"`
	Completed  int `json:"completed"`
	Unfinished int `json:"unfinished"`
	Lost       int `json:"lost"`
	// Hours is the end of the last job or of the arrivals, whichever is later.
	Hours float64 `json:"hours"`
	Lanes []Lane  `json:"lanes"`
	// PaidSeconds is the time of all machines. Seconds divides it into classes: each second is in
	// exactly one.
	PaidSeconds float64 `json:"paidSeconds"`
	Seconds     Classes `json:"seconds"`
	// SavingSeconds and LostSeconds are parts of the wasted seconds: while checkpoints interrupted
	// renders, and for work that was rendered again.
	SavingSeconds float64 `json:"savingSeconds"`
	LostSeconds   float64 `json:"lostSeconds"`
	// Saves is the number of checkpoints that were saved without an interruption of the render.
	Saves int `json:"saves"`
	// BreakEvenSeconds is the duration of a checkpoint at which it costs as much as it saves. It is
	// set if a run without checkpoints is compared; see BreakEven.
	BreakEvenSeconds *float64 `json:"breakEvenSeconds"`
	// MostLost is the largest loss of one interruption.
	MostLost float64 `json:"mostLostSeconds"`
	// Goodput is the useful share of the paid seconds.
	Goodput float64 `json:"goodput"`
	CostUSD float64 `json:"costUsd"`
	// CostPerJobUSD is per job that completed.
	CostPerJobUSD float64 `json:"costPerJobUsd"`
	Machines      int     `json:"machines"`
	// Preemptions is the number of machines that were preempted, and Interruptions how many of them
	// had a job.
	Preemptions   int `json:"preemptions"`
	Interruptions int `json:"interruptions"`
	// Refused is the number of machines that the provider did not have.
	Refused int `json:"refusedMachines"`
	// Deadlines covers the jobs with a deadline, and Clairvoyant is the cheapest plan that meets
	// the deadlines; both are nil if no job has one.
	Deadlines   *Deadlines   `json:"deadlines"`
	Clairvoyant *Clairvoyant `json:"clairvoyant"`
	// Recovery is the time from an interruption until the job renders again.
	Recovery Quantiles `json:"recoverySeconds"`
	Series   []Sample  `json:"series"`
}

// Classes divides the paid seconds, as models.Paid does for the machines of a fleet.
type Classes struct {
	Boot   float64 `json:"boot"`
	Load   float64 `json:"load"`
	Idle   float64 `json:"idle"`
	Wasted float64 `json:"wasted"`
	Useful float64 `json:"useful"`
	Ending float64 `json:"ending"`
}

// Quantiles summarises durations.
type Quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Deadlines is the number of jobs that completed by their deadline.
type Deadlines struct {
	Jobs int `json:"jobs"`
	Met  int `json:"met"`
	// LatestSeconds is the greatest delay of a job after its deadline.
	LatestSeconds float64 `json:"latestSeconds"`
}

// Lane is the jobs of one tier.
type Lane struct {
	Tier models.Tier `json:"tier"`
	Jobs int         `json:"jobs"`
	// Wait is the time until a worker first takes the job, and Done the time until it completes.
	Wait Quantiles `json:"waitSeconds"`
	Done Quantiles `json:"doneSeconds"`
	// Target is the wait target, or nil.
	Target *float64 `json:"targetSeconds"`
	// Met means that 95 % of the jobs waited no longer than the target, to the second.
	Met bool `json:"met"`
}

// Sample is the state at a moment.
type Sample struct {
	Hour    float64             `json:"hour"`
	Waiting map[models.Tier]int `json:"waiting"`
	Booting int                 `json:"booting"`
	Idle    int                 `json:"idle"`
	Busy    int                 `json:"busy"`
	CostUSD float64             `json:"costUsd"`
}

// charge adds seconds of a worker to a class.
func (s *sim) charge(w *worker, class int, seconds float64) {
	w.charged += seconds
	c := &s.result.Seconds
	*[classes]*float64{&c.Boot, &c.Load, &c.Idle, &c.Wasted, &c.Useful}[class] += seconds
}

// Total is the sum of the classes.
func (c Classes) Total() float64 { return c.Boot + c.Load + c.Idle + c.Wasted + c.Useful + c.Ending }

// sample records the state.
func (s *sim) sample() {
	x := Sample{Hour: s.now / 3600, Waiting: map[models.Tier]int{}, CostUSD: s.result.CostUSD}
	for tier, n := range s.queues {
		if n > 0 {
			x.Waiting[tier] = n
		}
	}
	for _, p := range s.pools {
		for _, w := range p.workers {
			x.CostUSD += p.paid(s.now) - w.bornPaid
			switch w.Status {
			case models.WorkerBooting:
				x.Booting++
			case models.WorkerBusy:
				x.Busy++
			default:
				x.Idle++
			}
		}
	}
	s.result.Series = append(s.result.Series, x)
	if len(s.result.Series) < 4*samples {
		s.later(s.now+s.Hours*3600/samples, s.sample)
	}
}

// finish ends the machines and computes the result.
func (s *sim) finish() *Result {
	r := s.result
	working := map[*job]bool{}
	for _, p := range s.pools {
		for _, w := range slices.Clone(p.workers) {
			if a := w.attempt; a != nil {
				working[a.job] = true
				s.charge(w, classLoad, max(min(s.now, a.rendering)-a.began, 0))
				done, spent, _ := a.progress(s.now)
				s.charge(w, classUseful, done)
				s.charge(w, classWasted, spent-done)
				w.attempt = nil
				s.bury(w)
				continue
			}
			s.retire(w)
		}
	}
	r.Scenario, r.Checkpoints, r.Seed, r.Jobs, r.Hours = s.Name, s.Policy.Save, s.Seed, len(s.jobs), max(s.now/3600, s.Hours)
	for _, j := range s.jobs {
		switch {
		case j.state == completed:
			r.Completed++
		case j.state == coming, j.place != nil, working[j], s.unnoticed[j]:
			r.Unfinished++
		default:
			r.Lost++
		}
	}
	if r.PaidSeconds > 0 {
		r.Goodput = r.Seconds.Useful / r.PaidSeconds
	}
	if r.Completed > 0 {
		r.CostPerJobUSD = r.CostUSD / float64(r.Completed)
	}
	r.Recovery = quantiles(s.recover)
	s.sumLanes()
	r.Deadlines, r.Clairvoyant = s.deadlines(), s.clairvoyant()
	return r
}

func (s *sim) deadlines() *Deadlines {
	var d Deadlines
	for _, j := range s.jobs {
		if math.IsInf(j.finishBy, 1) {
			continue
		}
		d.Jobs++
		if j.state == completed && j.ended <= j.finishBy {
			d.Met++
			continue
		}
		if j.state != completed {
			j.ended = s.now
		}
		d.LatestSeconds = max(d.LatestSeconds, j.ended-j.finishBy)
	}
	if d.Jobs == 0 {
		return nil
	}
	return &d
}

func (s *sim) sumLanes() {
	for _, tier := range models.Tiers {
		var waits, dones []float64
		lane := Lane{Tier: tier}
		for _, j := range s.jobs {
			if j.tier != tier {
				continue
			}
			lane.Jobs++
			if !math.IsNaN(j.started) {
				waits = append(waits, j.started-j.arrived)
			}
			if j.state == completed {
				dones = append(dones, j.ended-j.arrived)
			}
		}
		if lane.Jobs == 0 {
			continue
		}
		lane.Wait, lane.Done, lane.Met = quantiles(waits), quantiles(dones), true
		if t, has := target(tier); has {
			lane.Target, lane.Met = &t, len(waits) == lane.Jobs && lane.Wait.P95 < t+1
		}
		s.result.Lanes = append(s.result.Lanes, lane)
	}
}

// BreakEven sets BreakEvenSeconds of the runs with checkpoints, if one of the runs has none: the
// work that was rendered again only without them, per checkpoint.
func BreakEven(results []*Result) {
	i := slices.IndexFunc(results, func(r *Result) bool { return r.Checkpoints == "none" && r.Seconds.Useful > 0 })
	if i < 0 {
		return
	}
	without := results[i].LostSeconds / results[i].Seconds.Useful
	for _, r := range results {
		if r.Saves > 0 {
			most := (without*r.Seconds.Useful - r.LostSeconds) / float64(r.Saves)
			r.BreakEvenSeconds = &most
		}
	}
}

// quantiles summarises values, by the nearest rank.
func quantiles(values []float64) Quantiles {
	n := len(values)
	if n == 0 {
		return Quantiles{}
	}
	slices.Sort(values)
	at := func(q float64) float64 { return values[max(int(math.Ceil(q*float64(n)))-1, 0)] }
	return Quantiles{N: n, P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: values[n-1]}
}
