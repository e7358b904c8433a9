package estimate

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// NewWorkers is the capacity for models, and how long its new workers take until they render.
type NewWorkers struct {
	// boots are the seconds until a worker of on-demand capacity has booted, and loads those until it
	// has loaded the model, by model.
	boots, loads map[string]float64
	// Capacity is all capacity for the models.
	Capacity []capacity.Capacity
}

// ReadNewWorkers reads the new workers for models.
func ReadNewWorkers(ctx context.Context, db bun.IDB, names []string) (s NewWorkers, err error) {
	if s.boots, err = capacity.OnDemandBoots(ctx, db, names); err != nil {
		return s, fmt.Errorf("read how long workers boot: %w", err)
	}
	loads, err := models.ListModelLoads(ctx, db)
	if err != nil {
		return s, fmt.Errorf("read how long models load: %w", err)
	}
	s.loads = map[string]float64{}
	for _, l := range loads {
		s.loads[l.Model] = max(s.loads[l.Model], min(LoadTimeOf(l).ColdSeconds(), MaxLoad.Seconds()))
	}
	if s.Capacity, err = capacity.ListCapacity(ctx, db, names); err != nil {
		return s, fmt.Errorf("list the capacity: %w", err)
	}
	return s, nil
}

// Seconds returns how long a new worker of on-demand capacity takes until it renders.
func (s NewWorkers) Seconds(model string) float64 { return s.boots[model] + s.loads[model] }

// Room returns how many workers of a kind are idle or can be booted now.
func Room(c capacity.Capacity) int { return c.Idle + c.Room }
