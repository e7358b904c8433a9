package checkpoints

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// RefreshEvery is how often a process reads what was measured.
const RefreshEvery = 15 * time.Second

// Plans are the plans of all pools, as a process last read them, so that a lease needs no query. A
// nil *Plans has none.
type Plans struct {
	DB *bun.DB

	current atomic.Pointer[[]PoolPlan]
}

// PoolPlan is a plan with its pool.
type PoolPlan struct {
	PoolID models.PoolID
	Pool   string // its name
	*Plan
}

// Pass reads what was measured.
func (p *Plans) Pass(ctx context.Context) error {
	records, err := models.ListCheckpointRecords(ctx, p.DB, Fade)
	if err != nil {
		return fmt.Errorf("read the records of checkpoints: %w", err)
	}
	all := make([]PoolPlan, len(records))
	for i, r := range records {
		all[i] = PoolPlan{r.PoolID, r.Pool, PlanOf(r)}
	}
	p.current.Store(&all)
	return nil
}

// All returns the plans by the names of the pools and models. It returns none before the first
// Pass.
func (p *Plans) All() []PoolPlan {
	if p == nil {
		return nil
	}
	if all := p.current.Load(); all != nil {
		return *all
	}
	return nil
}

// OfPool returns the plans of a pool, by model.
func (p *Plans) OfPool(id models.PoolID) []*Plan {
	found := []*Plan{}
	for _, plan := range p.All() {
		if plan.PoolID == id {
			found = append(found, plan.Plan)
		}
	}
	return found
}

// Interval returns the time between two checkpoints of a model on a worker of a pool. If nothing is
// known of them, such as of a worker without a pool, it is Unmeasured.
func (p *Plans) Interval(id models.PoolID, model string) time.Duration {
	for _, plan := range p.All() {
		if plan.PoolID == id && plan.Model == model {
			return time.Duration(plan.IntervalSeconds * float64(time.Second))
		}
	}
	return Unmeasured
}
