package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// policy returns the scaler's policy.
func (s *Scaling) policy() fleet.Policy {
	p := fleet.DefaultPolicy
	if s.SpotPercent != nil {
		p.OnDemandShare = 1 - *s.SpotPercent/100
	}
	if s.ReservePercent != nil {
		p.Reserve = *s.ReservePercent / 100
	}
	if s.Forecasts != nil {
		p.Forecast = *s.Forecasts
	}
	return p
}

// inputAge is how long the scaler uses its knowledge of the past, in seconds.
const inputAge = 60

// past is the scaler's knowledge of the past.
type past struct {
	history models.ArrivalHistory
	index   map[arrivalKey]int // of the hours in history
	policy  fleet.Policy
	input   fleet.PlanInput
	readAt  float64
	// taken contains the times of the preemptions of each region in the last hour, in order.
	taken map[string][]float64
	// spots contains the number of spot workers of each region in each of the last 60 minutes.
	spots map[string][]float64
	boot  float64 // seconds
}

type arrivalKey struct {
	model string
	tier  models.Tier
	hour  int64
}

func (s *sim) newPast() past {
	sc := s.Scenario
	p := past{
		index: map[arrivalKey]int{}, policy: sc.Scaling.policy(), readAt: math.Inf(-1), boot: sc.Machines.Boot.Median,
		taken: map[string][]float64{}, spots: map[string][]float64{},
	}
	p.history.Since = epoch.Add(-time.Duration(sc.Scaling.KnownDays)*24*time.Hour - time.Hour)
	for hour := -24 * sc.Scaling.KnownDays; hour < 0; hour++ {
		for i := range sc.Workload {
			w := &sc.Workload[i]
			if n := w.usual(float64(hour)+0.5, sc.Hours); n > 0 {
				p.add(arrivalKey{w.Model, w.Tier, int64(hour)}, n, n*s.gpuSeconds(*w))
			}
		}
	}
	return p
}

// usual returns how many jobs arrive in the hour around a time, in hours, on a day like those of
// the scenario. Bursts, and the times of a file, are new in the scenario and count as 0.
func (w *Workload) usual(at, hours float64) float64 {
	rate := func(at float64) float64 {
		swing := (w.Arrivals.PeakRatio - 1) / (w.Arrivals.PeakRatio + 1)
		return 1 + swing*math.Cos(2*math.Pi*(at-w.Arrivals.PeakHour)/24)
	}
	switch w.Arrivals.Shape {
	case "constant":
		return float64(w.Jobs) / hours
	case "diurnal":
		sum := 0.0
		for h := 0.5; h < hours; h++ {
			sum += rate(h)
		}
		return float64(w.Jobs) * rate(at) / max(sum, 1e-9)
	}
	return 0
}

func (p *past) add(key arrivalKey, jobs, gpuSeconds float64) {
	i, known := p.index[key]
	if !known {
		i = len(p.history.Hours)
		p.index[key] = i
		p.history.Hours = append(p.history.Hours, models.ArrivalHour{Model: key.model, Tier: key.tier,
			Hour: epoch.Add(time.Duration(key.hour) * time.Hour)})
	}
	p.history.Hours[i].Jobs += jobs
	p.history.Hours[i].GPUSeconds += gpuSeconds
}

// arrive counts a job.
func (p *past) arrive(tier models.Tier, k *kind, now float64) {
	p.add(arrivalKey{k.Model, tier, int64(now / 3600)}, 1, k.estimate)
}

func (p *past) preempted(region string, now float64) { p.taken[region] = append(p.taken[region], now) }

// look returns the scaler's knowledge of the past, which is updated once a minute.
func (s *sim) look() fleet.PlanInput {
	p := &s.past
	if s.now-p.readAt < inputAge {
		return p.input
	}
	p.readAt = math.Floor(s.now/inputAge) * inputAge
	p.input = fleet.PlanInput{Policy: p.policy, Preempted: map[string]capacity.PreemptionRate{}, Impatient: s.Impatient}
	if p.policy.Forecast {
		p.input.Expected = fleet.Forecast(p.history, clock(s.now), time.Duration(p.boot*float64(time.Second)))
	}
	spots := map[string]float64{}
	for _, pool := range s.pools {
		if pool.CapacityClass == models.CapacitySpot {
			spots[pool.Region] += float64(len(pool.workers))
		}
	}
	for region, n := range spots {
		last := append(p.spots[region], n)
		p.spots[region] = last[max(len(last)-60, 0):]
		taken := p.taken[region]
		old, _ := slices.BinarySearch(taken, s.now-3600)
		p.taken[region] = taken[old:]
		hours := 0.0
		for _, n := range p.spots[region] {
			hours += n / 60
		}
		p.input.Preempted[region] = capacity.PreemptionRate{Preempted: len(taken) - old, WorkerHours: hours}
	}
	return p.input
}
