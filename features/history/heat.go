package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
)

// HeatCell describes one GPU type in one region: how well it is used, and what is wrong.
type HeatCell struct {
	Region, GPUType string
	// Pools are the names of its pools.
	Pools []string
	// Idle, Busy and Booting count its workers now. Most is how many its pools may have.
	Idle, Busy, Booting, Most int
	// Depth is the number of waiting jobs whose model its pools or workers offer. Jobs of paused
	// queues count in Paused instead.
	Depth, Paused int
	// Utilization is the share of its workers that had a job, WastedShare the lost share of its GPU
	// time, and PreemptedShare the share of its attempts that lost their worker; each from 0 to 1.
	Utilization, WastedShare, PreemptedShare *float64
	WastedGPUHours, PreemptionsPerHour       *float64
	// OperatorPreemptionsPerHour counts what PreemptionsPerHour and PreemptedShare exclude.
	OperatorPreemptionsPerHour *float64
	Verdict                    Verdict

	broken string // why machines of one of its pools do not start, or ""
}

// HeatLevel is the urgency of a verdict.
type HeatLevel string

// The levels, from calm to urgent.
const (
	HeatCalm  HeatLevel = "CALM"
	HeatWatch HeatLevel = "WATCH"
	HeatAct   HeatLevel = "ACT"
)

// Verdict is the conclusion from the figures of a cell.
type Verdict struct {
	Level HeatLevel
	// Cause is a few words, Advice a sentence or two.
	Cause, Advice string
	// Runbook is the entry of docs/operators/heat-map.md with the remedy, or "".
	Runbook string
}

// HeatPool is a pool on the heat map.
type HeatPool struct {
	*capacity.Pool
	// Paused and Refused mean that the pool gets no more workers, because an operator paused it or
	// its provider refuses machines.
	Paused, Refused bool
}

// HeatMap returns a cell for each region and GPU type with pools, workers or a past, sorted by
// region and type. f contains the figures of the span shown, and now the present workers. halted
// means that no job starts.
func HeatMap(f *Figures, pools []HeatPool, now []*models.HistoryPool, queues []backlog.QueueCount, halted bool) []*HeatCell {
	cells := map[[2]string]*HeatCell{}
	cell := func(region, gpuType string) *HeatCell {
		at := [2]string{region, gpuType}
		if cells[at] == nil {
			cells[at] = &HeatCell{Region: region, GPUType: gpuType}
		}
		return cells[at]
	}
	offered, spot, stopped := map[*HeatCell]map[string]bool{}, map[*HeatCell]bool{}, map[*HeatCell]string{}
	for _, p := range pools {
		c := cell(p.Region, p.GPUType)
		c.Pools = append(c.Pools, p.Name)
		c.Most += p.MaxWorkers
		if offered[c] == nil {
			offered[c] = map[string]bool{}
		}
		for _, model := range p.Models {
			offered[c][model] = true
		}
		spot[c] = spot[c] || p.CapacityClass == models.CapacitySpot
		stopped[c] = cmp.Or(stopped[c], whyStopped(p))
		if p.NotBooting() && !p.Paused {
			c.broken = cmp.Or(c.broken, notBooting(p))
		}
	}
	for _, w := range now {
		c := cell(w.Region, w.GPUType)
		c.Idle, c.Busy, c.Booting = c.Idle+int(w.Idle), c.Busy+int(w.Busy), c.Booting+int(w.Booting)
	}
	for _, p := range f.Pools {
		cell(p.Region, p.GPUType)
	}
	all := make([]*HeatCell, 0, len(cells))
	for _, c := range cells {
		for _, q := range queues {
			switch {
			case !offered[c][q.Model]:
			case q.Paused() || halted:
				c.Paused += q.Depth
			default:
				c.Depth += q.Depth
			}
		}
		c.measure(f.Of(Selection{Region: c.Region, GPUType: c.GPUType}))
		c.Verdict = c.judge(spot[c], stopped[c])
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *HeatCell) int {
		return cmp.Or(strings.Compare(a.Region, b.Region), strings.Compare(a.GPUType, b.GPUType))
	})
	return all
}

func whyStopped(p HeatPool) string {
	switch {
	case p.Paused:
		return "the pool " + p.Name + " is paused"
	case p.Refused:
		return "the provider refuses machines for the pool " + p.Name
	case p.NotBooting():
		return notBooting(p)
	}
	return ""
}

func notBooting(p HeatPool) string {
	return fmt.Sprintf("machines of the pool %s do not start (%s)", p.Name, p.BootFailure)
}

func (c *HeatCell) measure(f *Figures) {
	c.Utilization, c.PreemptedShare = f.WorkerUtilization(), f.PreemptedShare()
	c.WastedGPUHours, c.PreemptionsPerHour, c.OperatorPreemptionsPerHour = f.WastedGPUHours(), f.PreemptionsPerHour(),
		f.OperatorPreemptionsPerHour()
	c.WastedShare = f.WastedShare()
}

// The bounds of verdicts.
const (
	muchWaste     = 0.15
	someWaste     = 30.0 / 3600 // GPU hours: less is no reason to act, at any share
	muchPreempted = 0.20
	muchIdle      = 0.50
	fullyBusy     = 0.95
)

// judge returns the first verdict that applies. spot means that machines of the cell can be
// preempted. stopped is why a pool gets no more workers, or "".
func (c *HeatCell) judge(spot bool, stopped string) Verdict {
	wasteful, preempted := over(c.WastedShare, muchWaste) && over(c.WastedGPUHours, someWaste), over(c.PreemptedShare, muchPreempted)
	workers := c.Idle + c.Busy
	switch {
	case c.broken != "" && workers == 0:
		return Verdict{HeatAct, "Machines do not start", fmt.Sprintf("Waiting jobs: %d, but %s.", c.Depth, c.broken), "machines-do-not-start"}
	case c.Depth > 0 && workers == 0 && c.Booting > 0:
		return Verdict{HeatWatch, "Workers boot", fmt.Sprintf("Waiting jobs: %d. Booting workers: %d. None has registered yet.", c.Depth,
			c.Booting), "workers-boot"}
	case c.Depth > 0 && workers == 0 && stopped != "":
		return Verdict{HeatAct, "No capacity", fmt.Sprintf("Waiting jobs: %d, and %s. Open another zone, region or type of GPU.", c.Depth,
			stopped), "no-capacity"}
	case c.Depth > 0 && workers == 0:
		return Verdict{HeatAct, "No workers", fmt.Sprintf("Waiting jobs that could run here: %d. Look at the decisions of the scaler.", c.Depth),
			"no-workers"}
	case wasteful && preempted:
		advice := "Much GPU time is lost to preemptions: move jobs to on-demand machines or another zone, or save checkpoints more often."
		if !spot {
			advice = "Machines disappear that should not: look at the provider and at the network of the workers."
		}
		return Verdict{HeatAct, "Machines are taken away", advice, "machines-are-taken-away"}
	case wasteful:
		return Verdict{HeatAct, "Attempts fail",
			"Much GPU time is lost and few machines are taken away: look at failure classes, and for a host that fails often.", "attempts-fail"}
	case preempted:
		return Verdict{HeatWatch, "Preempted, little lost", "Machines are taken away often, but checkpoints keep the work. Watch the waits.",
			"machines-are-taken-away"}
	case c.Depth > 0 && c.Idle > 0 && c.Idle >= c.Busy:
		return Verdict{HeatAct, "Idle beside a queue",
			"Workers are idle while jobs wait for a model of these pools: a lane, an account, a region or a needed price keeps them apart.",
			"idle-beside-a-queue"}
	case c.Depth > 0 && c.Booting > 0:
		return Verdict{HeatWatch, "Workers boot", fmt.Sprintf("Waiting jobs: %d. Booting workers: %d.", c.Depth, c.Booting), "workers-boot"}
	case c.Depth > 0 && c.Idle == 0 && c.Most > 0 && workers >= c.Most:
		return Verdict{HeatAct, "At its limit", fmt.Sprintf("All %d workers are busy, and %d jobs wait. Raise maxWorkers, or add a pool.",
			workers, c.Depth), "at-its-limit"}
	case c.Depth > 0 && stopped != "":
		return Verdict{HeatWatch, "Cannot grow", fmt.Sprintf("Waiting jobs: %d, and %s.", c.Depth, stopped), "no-capacity"}
	case c.Depth == 0 && c.Paused > 0 && c.Idle > 0:
		return Verdict{HeatWatch, "Idle beside a pause",
			fmt.Sprintf("Workers are idle, and %d jobs of paused queues wait that they could run. Resume them, or leave the pools as they are until then.", c.Paused), "idle-beside-a-pause"}
	case c.Depth == 0 && c.Idle > 0 && under(c.Utilization, muchIdle):
		return Verdict{HeatWatch, "Too large", "Fewer than half of the workers had a job, and nothing waits: lower minWorkers or warmWorkers.",
			"too-large"}
	case over(c.Utilization, fullyBusy) && c.Depth > 0:
		return Verdict{HeatWatch, "Full", "Nearly all workers are busy and jobs wait; the pools can still grow.", "at-its-limit"}
	case workers+c.Booting == 0:
		return Verdict{HeatCalm, "Empty", "No worker, and no job that needs one.", ""}
	}
	return Verdict{HeatCalm, "Healthy", "", ""}
}

func over(figure *float64, bound float64) bool  { return figure != nil && *figure > bound }
func under(figure *float64, bound float64) bool { return figure != nil && *figure < bound }
