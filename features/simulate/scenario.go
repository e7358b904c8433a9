package simulate

import (
	"math"
	"path/filepath"
	"sync"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Bounds of a scenario.
const (
	// MaxJobs is how many jobs a scenario may have, all workloads together.
	MaxJobs = 2_000_000
	// MaxHours is how long the arrivals may last.
	MaxHours       = 31 * 24
	maxAccounts    = 100_000
	maxPools       = 50
	maxEntries     = 100
	maxVariants    = 8
	maxSeconds     = 24 * 3600
	maxGPUSeconds  = 1_000_000
	maxPreemptions = 60
	maxPrice       = 10_000
)

// Scenario is a workload, the machines that serve it, and the events that affect them.
type Scenario struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	// Seed is the seed of all random numbers.
	Seed uint64 `yaml:"seed"`
	// Hours is how long jobs arrive. The run ends with the last job.
	Hours     float64    `yaml:"hours"`
	Workload  []Workload `yaml:"workload"`
	Machines  Machines   `yaml:"machines"`
	Policy    Policy     `yaml:"checkpoints"`
	Scaling   Scaling    `yaml:"scaling"`
	Reclaims  []Reclaim  `yaml:"reclaims"`
	Outages   []Outage   `yaml:"outages"`
	Stockouts []Stockout `yaml:"stockouts"`
	Prices    []Price    `yaml:"prices"`
	Traces    []Trace    `yaml:"traces"`
	// If Impatient is set, BATCH jobs do not wait for cheaper machines.
	Impatient bool `yaml:"impatient"`
	// If Anywhere is set, jobs run on any capacity, whatever their slack.
	Anywhere bool `yaml:"anywhere"`
	// Variants are policies to compare: each replaces a part of the scenario.
	Variants []Variant        `yaml:"variants"`
	Written  []fleet.FilePool `yaml:"pools"`

	// Source is the text from which the scenario was read.
	Source string `yaml:"-"`

	pools []capacity.PoolSpec
	known *catalogue.Snapshot
}

// Workload is jobs of one kind from accounts of one tier.
type Workload struct {
	Tier     models.Tier `yaml:"tier"`
	Accounts int         `yaml:"accounts"`
	Jobs     int         `yaml:"jobs"`
	Arrivals Arrivals    `yaml:"arrivals"`
	Model    string      `yaml:"model"`
	// DurationSeconds and Resolution are the parameters from which the catalogue estimates the
	// work.
	DurationSeconds float64 `yaml:"durationSeconds"`
	Resolution      string  `yaml:"resolution"`
	// GPUSeconds is the work of a job, instead of the catalogue's estimate.
	GPUSeconds float64 `yaml:"gpuSeconds"`
	// FinishByHours is the deadline in hours after the arrival; 0 means none.
	FinishByHours float64 `yaml:"finishByHours"`

	times []float64 // from a file of arrivals
}

// Arrivals describes when jobs arrive.
type Arrivals struct {
	// Shape is constant, diurnal, burst or times.
	Shape string `yaml:"shape"`
	// PeakHour and PeakRatio describe a diurnal shape: the busiest hour of the day, and its
	// arrivals as a multiple of those in the quietest hour.
	PeakHour  float64 `yaml:"peakHour"`
	PeakRatio float64 `yaml:"peakRatio"`
	// AtHour and Minutes describe a burst.
	AtHour  float64 `yaml:"atHour"`
	Minutes float64 `yaml:"minutes"`
	// File is a CSV file with the arrival times in seconds in its first column.
	File string `yaml:"file"`
}

// Machines describes the machines of the pools.
type Machines struct {
	Boot    Spread `yaml:"bootSeconds"`
	Load    Spread `yaml:"loadSeconds"`
	Restore Spread `yaml:"restoreSeconds"`
	// Render is the render time as a multiple of the catalogue's estimate.
	Render Spread `yaml:"renderRatio"`
	// GPUs multiplies it by a factor for the GPU type.
	GPUs map[string]float64 `yaml:"gpuRatios"`
	// PreemptionsPerHour is the rate at which a SPOT machine is preempted, per hour.
	PreemptionsPerHour float64 `yaml:"preemptionsPerHour"`
	NoticeSeconds      float64 `yaml:"noticeSeconds"`
	// DetectSeconds is how long a loss without notice stays undetected.
	DetectSeconds float64 `yaml:"detectSeconds"`
	// EndSeconds is how long a machine is paid for after its worker has ended; nil means defaultEnd.
	EndSeconds *float64 `yaml:"endSeconds"`
}

// defaultEnd is a second or two until the scaler deletes a machine, and what a cloud takes for that.
const defaultEnd = 10

func (m *Machines) ending() float64 {
	if m.EndSeconds == nil {
		return defaultEnd
	}
	return *m.EndSeconds
}

// Policy is how often workers save checkpoints.
type Policy struct {
	// Save is adaptive, fixed or none.
	Save string `yaml:"policy"`
	// Seconds is the interval of a fixed policy.
	Seconds     float64 `yaml:"seconds"`
	SaveSeconds Spread  `yaml:"saveSeconds"`
}

// Scaling contains the scaler's options REELAY_SPOT_PERCENT, REELAY_RESERVE_PERCENT and
// REELAY_FORECAST, with the same defaults.
type Scaling struct {
	SpotPercent    *float64 `yaml:"spotPercent"`
	ReservePercent *float64 `yaml:"reservePercent"`
	Forecasts      *bool    `yaml:"forecast"`
	// KnownDays is the number of days with similar arrivals before the run.
	KnownDays int `yaml:"knownDays"`
}

// Reclaim is a moment at which a provider preempts a share of the SPOT machines.
type Reclaim struct {
	AtHour        float64  `yaml:"atHour"`
	Share         float64  `yaml:"share"`
	WithinSeconds float64  `yaml:"withinSeconds"`
	NoticeSeconds *float64 `yaml:"noticeSeconds"`
	Region        string   `yaml:"region"`
}

// Outage is a time in which a region has no machines.
type Outage struct {
	Region   string  `yaml:"region"`
	FromHour float64 `yaml:"fromHour"`
	ToHour   float64 `yaml:"toHour"`
}

// Stockout is a time in which a pool gets no new machines.
type Stockout struct {
	Pool     string  `yaml:"pool"`
	FromHour float64 `yaml:"fromHour"`
	ToHour   float64 `yaml:"toHour"`
}

// Price is a new price of a pool's machines.
type Price struct {
	Pool            string  `yaml:"pool"`
	AtHour          float64 `yaml:"atHour"`
	PricePerHourUSD float64 `yaml:"pricePerHourUsd"`
	// KnownHours is how long in advance the scaler knows of it.
	KnownHours float64 `yaml:"knownHours"`
}

// Variant is the scenario with other checkpoints, machines or pools.
type Variant struct {
	Name     string           `yaml:"name"`
	Policy   *Policy          `yaml:"checkpoints"`
	Scaling  *Scaling         `yaml:"scaling"`
	Machines *Machines        `yaml:"machines"`
	Pools    []fleet.FilePool `yaml:"pools"`
	// Impatient and Anywhere are as in [Scenario].
	Impatient *bool `yaml:"impatient"`
	Anywhere  *bool `yaml:"anywhere"`
}

// priors returns Reelay's built-in catalogue. Compiling its schemas takes a while.
var priors = sync.OnceValues(func() (*catalogue.Snapshot, error) { return catalogue.Load() })

// Read reads and checks a scenario. The files that it names are read from folder. An error
// names the line of each problem.
func Read(name, folder string, data []byte) (*Scenario, error) {
	known, err := priors()
	if err != nil {
		return nil, err
	}
	s := &Scenario{known: known, Source: string(data)}
	file, err := yamlfile.Read(name, "a scenario", data, s)
	if err != nil {
		return nil, err
	}
	s.Name = text.Clip(s.Name, text.MaxName)
	if s.Name == "" {
		s.Name = filepath.Base(name)
	}
	c := &checker{file, s}
	c.all()
	c.files(folder)
	return s, file.Err()
}

// Spread is a random time or ratio: log-normal with this median and 95th percentile, or always the
// median if there is no percentile.
type Spread struct {
	Median float64 `yaml:"median"`
	P95    float64 `yaml:"p95"`
}

// z95 is the 95th percentile of the standard normal distribution.
const z95 = 1.6448536269514722

// draw returns the value at a standard normal deviate.
func (s Spread) draw(z float64) float64 {
	if s.Median == 0 || s.P95 <= s.Median {
		return s.Median
	}
	return s.Median * math.Exp(z*math.Log(s.P95/s.Median)/z95)
}

// With returns the scenario with a variant applied.
func (s *Scenario) With(v Variant) *Scenario {
	other := *s
	other.Name, other.Variants = v.Name, nil
	if v.Policy != nil {
		other.Policy = *v.Policy
	}
	if v.Scaling != nil {
		other.Scaling = *v.Scaling
	}
	if v.Machines != nil {
		other.Machines = *v.Machines
	}
	if v.Impatient != nil {
		other.Impatient = *v.Impatient
	}
	if v.Anywhere != nil {
		other.Anywhere = *v.Anywhere
	}
	if len(v.Pools) > 0 {
		other.pools = nil
		for _, p := range v.Pools {
			spec, _ := fleet.Spec(p, s.known) // checked by Read
			other.pools = append(other.pools, spec)
		}
	}
	return &other
}

// target returns the wait target of a tier in seconds, and whether it has one.
func target(t models.Tier) (float64, bool) {
	wait := jobs.Policies[t].WaitTarget
	return max(wait.Seconds(), 0), wait != jobs.NoTarget
}
