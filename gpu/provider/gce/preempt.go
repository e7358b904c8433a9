package gce

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"google.golang.org/api/compute/v1"
)

var _ fleet.Preemptor = (*Provider)(nil)

// Preempt implements [fleet.Preemptor]: a simulated maintenance event reclaims a Spot machine as
// Compute Engine does. The notice is the one that the machine was created with, whatever the
// caller asks for. It refuses to preempt an on-demand machine, which would move or restart.
func (p *Provider) Preempt(ctx context.Context, pool *capacity.Pool, instance fleet.Instance, _ time.Duration) error {
	service, m, err := p.of(pool)
	if err != nil {
		return err
	}
	if pool.CapacityClass != models.CapacitySpot {
		return fleet.Refuse(fleet.Invalid, "Compute Engine preempts Spot machines only, and those of the pool %s are on-demand", pool.Name)
	}
	found, err := p.locate(ctx, pool, []fleet.Instance{{ID: instance.ID, Zone: instance.Zone}})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fleet.ErrNoInstance
	}
	id := uuid.NewString()
	_, err = call(ctx, p, func(ctx context.Context) (*compute.Operation, error) {
		return service.Instances.SimulateMaintenanceEvent(m.s.Project, found[0].Zone, instance.ID).RequestId(id).Context(ctx).Do()
	})
	if isGone(err) {
		return fleet.ErrNoInstance
	}
	if err != nil {
		return fmt.Errorf("preempt instance %s: %w", instance.ID, err)
	}
	return nil
}
