package gce

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"google.golang.org/api/compute/v1"
)

var _ fleet.Advisor = (*Provider)(nil)

// Advise implements [fleet.Advisor] with the methods advice.capacityHistory and advice.capacity
// of Compute Engine, which know Spot machines only.
func (p *Provider) Advise(ctx context.Context, pool *capacity.Pool) (*fleet.Advice, error) {
	service, m, err := p.of(pool)
	if err != nil {
		return nil, err
	}
	if pool.CapacityClass != models.CapacitySpot || pool.MachineType == "" {
		return nil, fleet.Refuse(fleet.Invalid, "Compute Engine advises on Spot machines with a machine type only")
	}
	history, err := call(ctx, p, func(ctx context.Context) (*compute.CapacityHistoryResponse, error) {
		return service.Advice.CapacityHistory(m.s.Project, pool.Region, m.historyRequest()).Context(ctx).Do()
	})
	if err != nil {
		return nil, fmt.Errorf("read the history of capacity: %w", err)
	}
	advice := &fleet.Advice{}
	if err := readHistory(history, advice); err != nil {
		return nil, err
	}
	capacity, err := call(ctx, p, func(ctx context.Context) (*compute.CapacityAdviceResponse, error) {
		return service.Advice.Capacity(m.s.Project, pool.Region, m.capacityRequest()).Context(ctx).Do()
	})
	if err != nil {
		return nil, fmt.Errorf("ask for advice on capacity: %w", err)
	}
	if len(capacity.Recommendations) > 0 && capacity.Recommendations[0].Scores != nil {
		scores := capacity.Recommendations[0].Scores
		advice.Obtainability = new(scores.Obtainability)
		// The API writes a duration as seconds, such as 3600s.
		advice.Uptime, _ = time.ParseDuration(scores.EstimatedUptime)
	}
	return advice, nil
}

// readHistory takes the newest records of a history.
func readHistory(h *compute.CapacityHistoryResponse, into *fleet.Advice) error {
	at := func(i *compute.Interval) time.Time {
		if i == nil {
			return time.Time{}
		}
		start, _ := time.Parse(time.RFC3339, i.StartTime)
		return start
	}
	if len(h.PriceHistory) > 0 {
		newest := slices.MaxFunc(h.PriceHistory, func(a, b *compute.CapacityHistoryResponsePriceRecord) int {
			return at(a.Interval).Compare(at(b.Interval))
		})
		if price := newest.ListPrice; price != nil {
			if cmp.Or(price.CurrencyCode, "USD") != "USD" {
				return fleet.Refuse(fleet.Invalid, "Compute Engine states the price in %s, not in US dollars", price.CurrencyCode)
			}
			into.PricePerHourUSD = new(float64(price.Units) + float64(price.Nanos)/1e9)
			into.PriceSince = at(newest.Interval)
		}
	}
	if len(h.PreemptionHistory) > 0 {
		newest := slices.MaxFunc(h.PreemptionHistory, func(a, b *compute.CapacityHistoryResponsePreemptionRecord) int {
			return at(a.Interval).Compare(at(b.Interval))
		})
		into.Preempted = new(newest.PreemptionRate)
		into.PreemptedSince = at(newest.Interval)
	}
	return nil
}

func (m *machine) historyRequest() *compute.CapacityHistoryRequest {
	request := &compute.CapacityHistoryRequest{
		Types: []string{"PRICE", "PREEMPTION"},
		InstanceProperties: &compute.CapacityHistoryRequestInstanceProperties{
			MachineType: m.pool.MachineType, GuestAccelerators: m.attached(),
			Scheduling: &compute.CapacityHistoryRequestInstancePropertiesScheduling{ProvisioningModel: "SPOT"},
		},
	}
	if len(m.pool.Zones) == 1 {
		request.LocationPolicy = &compute.CapacityHistoryRequestLocationPolicy{Location: "zones/" + m.pool.Zones[0]}
	}
	return request
}

func (m *machine) capacityRequest() *compute.CapacityAdviceRequest {
	request := &compute.CapacityAdviceRequest{
		Size: int64(max(m.pool.MaxWorkers, 1)),
		InstanceProperties: &compute.CapacityAdviceRequestInstanceProperties{
			Scheduling: &compute.CapacityAdviceRequestInstancePropertiesScheduling{ProvisioningModel: "SPOT"},
		},
		InstanceFlexibilityPolicy: &compute.CapacityAdviceRequestInstanceFlexibilityPolicy{
			InstanceSelections: map[string]compute.CapacityAdviceRequestInstanceFlexibilityPolicyInstanceSelection{
				"worker": {MachineTypes: []string{m.pool.MachineType}, GuestAccelerators: m.attached()},
			},
		},
		DistributionPolicy: &compute.CapacityAdviceRequestDistributionPolicy{TargetShape: "ANY"},
	}
	for _, zone := range m.pool.Zones {
		request.DistributionPolicy.Zones = append(request.DistributionPolicy.Zones,
			&compute.CapacityAdviceRequestDistributionPolicyZoneConfiguration{Zone: "zones/" + zone})
	}
	return request
}

// attached are the GPUs that settings.accelerator adds to the machine type.
func (m *machine) attached() []*compute.AcceleratorConfig {
	if m.s.Accelerator.Type == "" {
		return nil
	}
	return []*compute.AcceleratorConfig{{AcceleratorType: m.s.Accelerator.Type, AcceleratorCount: m.s.Accelerator.Count}}
}
