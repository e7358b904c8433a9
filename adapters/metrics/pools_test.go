package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestPools(t *testing.T) {
	t.Parallel()

	t.Run("ShowTheirWorkersAndWhatTheyCost", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: none, Pools: func(context.Context) ([]*query.PoolStatus, error) {
			return []*query.PoolStatus{{Pool: &capacity.Pool{
				PoolSpec: capacity.PoolSpec{Name: "spot", MaxWorkers: 9, PricePerHourUSD: 0.5}, Desired: 4,
				PoolBackoff: capacity.PoolBackoff{Refusals: 2},
				PoolTrouble: capacity.PoolTrouble{ProviderProblem: "down"},
			}, Booting: 1, Busy: 2, Draining: 1, PaidWorkers: 4, ModelLoads: []estimate.LoadTime{{Model: "wan", LoadSeconds: 42, FetchSeconds: 180}}}}, nil
		}})

		require.Equal(t, []string{
			`reelay_pool_boot_failures{pool="spot"} 0`,
			`reelay_pool_cost_usd_per_hour{pool="spot"} 2`,
			`reelay_pool_model_fetch_seconds{model="wan",pool="spot"} 180`, `reelay_pool_model_load_seconds{model="wan",pool="spot"} 42`,
			`reelay_pool_paused{pool="spot"} 0`,
			`reelay_pool_price_problem{pool="spot"} 0`, `reelay_pool_price_stale{pool="spot"} 0`, `reelay_pool_price_usd{pool="spot"} 0.5`,
			`reelay_pool_provider_failing{pool="spot"} 1`,
			`reelay_pool_refusals{pool="spot"} 2`,
			`reelay_pool_workers{pool="spot",state="booting"} 1`, `reelay_pool_workers{pool="spot",state="busy"} 2`,
			`reelay_pool_workers{pool="spot",state="draining"} 1`, `reelay_pool_workers{pool="spot",state="idle"} 0`,
			`reelay_pool_workers_desired{pool="spot"} 4`, `reelay_pool_workers_max{pool="spot"} 9`,
		}, scrape(t, m))
	})

	t.Run("ShowTheStatesOfTheirEngines", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: none, Pools: func(context.Context) ([]*query.PoolStatus, error) {
			e := func(state capacity.EngineState) *query.PoolEngine {
				return &query.PoolEngine{Engine: &capacity.Engine{EngineReport: capacity.EngineReport{State: state}}}
			}
			return []*query.PoolStatus{{Pool: &capacity.Pool{PoolSpec: capacity.PoolSpec{Name: "comfy", Provider: engine.Provider}},
				Engines: []*query.PoolEngine{e(capacity.EngineBusy), e(capacity.EngineHeld), e(capacity.EngineBusy)}}}, nil
		}})

		require.Subset(t, scrape(t, m), []string{
			`reelay_engines{pool="comfy",state="busy"} 2`, `reelay_engines{pool="comfy",state="held"} 1`,
			`reelay_engines{pool="comfy",state="unreachable"} 0`,
		})
	})

	t.Run("AreNoneWhileTheyCannotBeRead", func(t *testing.T) {
		t.Parallel()

		m := New(Sources{Queues: none, Pools: func(context.Context) ([]*query.PoolStatus, error) { return nil, errors.New("down") }})

		require.Empty(t, scrape(t, m))
	})
}
