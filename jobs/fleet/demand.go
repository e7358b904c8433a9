package fleet

import (
	"context"
	"math"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Demand is what the scaler reckons with: a pool, and the work that it could do.
type Demand struct {
	Min     int          `json:"min"`
	Max     int          `json:"max"`
	Booting int          `json:"booting"`
	Idle    int          `json:"idle"`
	Busy    int          `json:"busy"`
	Queues  []LaneDemand `json:"queues"`
}

// LaneDemand is what waits in one lane, and for how many seconds that keeps
// workers of the pool busy.
type LaneDemand struct {
	Lane       models.Tier `json:"lane"`
	Depth      int         `json:"depth"`
	GPUSeconds float64     `json:"gpuSeconds"`
}

// workersFor is how many workers start a lane's work within its wait target.
func workersFor(q LaneDemand) int {
	if q.Depth == 0 {
		return 0
	}
	switch target := jobs.Policies[q.Lane].WaitTarget; target {
	case 0:
		return q.Depth
	case jobs.NoTarget:
		return 1
	default:
		return min(q.Depth, int(math.Ceil(q.GPUSeconds/target.Seconds())))
	}
}

func readDemand(ctx context.Context, tx bun.Tx, pool *models.Pool, times estimate.RenderTimes) (Demand, []*models.Worker, error) {
	d := Demand{Min: pool.MinWorkers, Max: pool.MaxWorkers, Queues: []LaneDemand{}}
	queues, err := models.QueueDemands(ctx, tx, pool.Models)
	if err != nil {
		return d, nil, err
	}
	d.Queues = laneDemands(queues, pool.GPUType, times)
	workers, err := models.ListPoolWorkers(ctx, tx, pool.ID)
	if err != nil {
		return d, nil, err
	}
	for _, w := range workers {
		switch w.Status {
		case models.WorkerBooting:
			d.Booting++
		case models.WorkerIdle:
			d.Idle++
		case models.WorkerBusy:
			d.Busy++
		}
	}
	return d, workers, nil
}

// laneDemands sums up what waits by lane, as long as each kind was learnt to take
// on that type of GPU.
func laneDemands(queues []models.QueueDemand, gpuType string, times estimate.RenderTimes) []LaneDemand {
	depth, work := map[models.Tier]float64{}, map[models.Tier]float64{}
	for _, q := range queues {
		depth[q.Lane] += q.Depth
		work[q.Lane] += q.GPUSeconds * times.Ratio(q.Kind, gpuType)
	}
	all := []LaneDemand{}
	for _, lane := range models.Tiers {
		if depth[lane] > 0 {
			all = append(all, LaneDemand{lane, int(math.Round(depth[lane])), work[lane]})
		}
	}
	return all
}
