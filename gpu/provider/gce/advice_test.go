package gce_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/compute/v1"
)

func TestAdvice(t *testing.T) {
	t.Parallel()

	interval := func(start string) *compute.Interval {
		return &compute.Interval{StartTime: start, EndTime: "2026-12-01T00:00:00Z"}
	}
	history := &compute.CapacityHistoryResponse{
		PriceHistory: []*compute.CapacityHistoryResponsePriceRecord{
			{Interval: interval("2026-11-02T00:00:00Z"), ListPrice: &compute.Money{CurrencyCode: "USD", Nanos: 282_000_000}},
			{Interval: interval("2026-11-01T00:00:00Z"), ListPrice: &compute.Money{CurrencyCode: "USD", Units: 9}},
		},
		PreemptionHistory: []*compute.CapacityHistoryResponsePreemptionRecord{
			{Interval: interval("2026-11-10T00:00:00Z"), PreemptionRate: 0.5}, {Interval: interval("2026-11-11T00:00:00Z"), PreemptionRate: 0.125},
		},
	}

	t.Run("TellsPriceAndPreemptions", func(t *testing.T) {
		t.Parallel()
		server, p := start(t)
		server.Advise("g2-standard-4", history, &compute.CapacityAdviceResponseRecommendationScores{Obtainability: 0.7, EstimatedUptime: "3600s"})
		server.Inject(fakegce.Fault{Method: "advice", Status: http.StatusServiceUnavailable, Reason: "backendError", Message: "Try again."})

		got, err := p.Advise(t.Context(), newPool(t))

		require.NoError(t, err)
		require.Equal(t, &fleet.Advice{
			PricePerHourUSD: new(0.282), PriceSince: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
			Preempted: new(0.125), PreemptedSince: time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC),
			Obtainability: new(0.7), Uptime: time.Hour,
		}, got)
		calls := server.Calls("advice")
		var asked compute.CapacityHistoryRequest
		require.NoError(t, json.Unmarshal(calls[len(calls)-2].Body, &asked))
		require.Nil(t, asked.LocationPolicy, "of the region, if the pool has several zones")
	})

	t.Run("IsOfTheOnlyZone", func(t *testing.T) {
		t.Parallel()
		server, p := start(t)
		server.Advise("n1-standard-8", &compute.CapacityHistoryResponse{}, nil)
		pool := newPool(t, func(s map[string]any) { s["accelerator"] = map[string]any{"type": "nvidia-tesla-t4"} })
		pool.MachineType, pool.Zones = "n1-standard-8", []string{zoneB}

		got, err := p.Advise(t.Context(), pool)

		require.NoError(t, err)
		require.Equal(t, &fleet.Advice{}, got, "nothing is known")
		var asked compute.CapacityHistoryRequest
		require.NoError(t, json.Unmarshal(server.Calls("advice")[0].Body, &asked))
		require.Equal(t, "zones/"+zoneB, asked.LocationPolicy.Location)
		require.Equal(t, "nvidia-tesla-t4", asked.InstanceProperties.GuestAccelerators[0].AcceleratorType)
	})

	t.Run("SaysWhyThereIsNone", func(t *testing.T) {
		t.Parallel()
		server, p := start(t)
		server.Advise("g2-standard-8", &compute.CapacityHistoryResponse{
			PriceHistory: []*compute.CapacityHistoryResponsePriceRecord{{ListPrice: &compute.Money{CurrencyCode: "EUR", Units: 1}}},
		}, nil)
		onDemand, euros, denied := newPool(t), newPool(t), newPool(t)
		onDemand.CapacityClass = models.CapacityOnDemand
		euros.MachineType = "g2-standard-8"

		_, err := p.Advise(t.Context(), onDemand)
		require.Equal(t, fleet.Invalid, fleet.ClassOf(err))
		_, err = p.Advise(t.Context(), euros)
		require.ErrorContains(t, err, "in EUR, not in US dollars")
		server.Inject(fakegce.Fault{Method: "advice", Status: http.StatusForbidden, Reason: "forbidden", Message: "Required permission."})
		_, err = p.Advise(t.Context(), denied)
		require.Equal(t, fleet.Permission, fleet.ClassOf(err))
	})
}

func TestPreempt(t *testing.T) {
	t.Parallel()

	t.Run("ReclaimsASpotMachine", func(t *testing.T) {
		t.Parallel()
		server, p := start(t)
		pool := newPool(t)
		require.NoError(t, p.Create(t.Context(), pool, "one", []string{"video-11111111"})[0].Err)

		require.NoError(t, p.Preempt(t.Context(), pool, fleet.Instance{ID: "video-11111111"}, time.Minute))

		all, err := p.List(t.Context(), pool)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, fleet.InstanceEnded, all[0].State)
		require.True(t, all[0].Reclaimed)
		require.ErrorIs(t, p.Preempt(t.Context(), pool, fleet.Instance{ID: "video-11111111"}, 0), fleet.ErrNoInstance)
		require.ErrorIs(t, p.Preempt(t.Context(), pool, fleet.Instance{ID: "video-11111111", Zone: zoneA}, 0), fleet.ErrNoInstance)
		require.Len(t, server.Calls("instances.simulateMaintenanceEvent"), 2)
	})

	t.Run("LeavesOnDemandMachines", func(t *testing.T) {
		t.Parallel()
		server, p := start(t)
		pool := newPool(t)
		pool.CapacityClass = models.CapacityOnDemand
		require.NoError(t, p.Create(t.Context(), pool, "one", []string{"video-11111111"})[0].Err)

		err := p.Preempt(t.Context(), pool, fleet.Instance{ID: "video-11111111"}, 0)

		require.ErrorContains(t, err, "Spot machines only")
		require.Empty(t, server.Calls("instances.simulateMaintenanceEvent"))
	})
}
