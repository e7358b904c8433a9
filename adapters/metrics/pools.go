package metrics

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

var (
	poolWorkersDesc = prometheus.NewDesc("reelay_pool_workers", "Workers by pool and state.", []string{"pool", "state"}, nil)
	poolDesiredDesc = poolDesc("reelay_pool_workers_desired", "How many workers the scaler's last decision wants, by pool.")
	poolMaxDesc     = poolDesc("reelay_pool_workers_max", "How many workers the pool may have.")
	poolPausedDesc  = poolDesc("reelay_pool_paused", "1 if an operator paused the pool.")
	poolRefusedDesc = poolDesc("reelay_pool_refusals",
		"How many creations in a row the pool's provider refused, at once or later. A machine that starts ends the row.")
	poolBootsDesc = poolDesc("reelay_pool_boot_failures",
		"How many of the pool's machines in a row did not start. From 3 on, the scaler tries one at a time.")
	poolPriceDesc = poolDesc("reelay_pool_price_usd", "The price of a worker for an hour, in US dollars.")
	poolStaleDesc = poolDesc("reelay_pool_price_stale", "1 if the price is an old one of its source.")
	poolFailsDesc = poolDesc("reelay_pool_provider_failing",
		"1 if the provider could not list or delete the pool's machines when it was last asked.")
	poolTroubleDesc = poolDesc("reelay_pool_price_problem", "1 if the source of the price gave none when it was last read.")
	poolLoadDesc    = prometheus.NewDesc("reelay_pool_model_load_seconds",
		"How long workers take to load a model, without the download of its weights.", []string{"pool", "model"}, nil)
	poolFetchDesc = prometheus.NewDesc("reelay_pool_model_fetch_seconds",
		"How long workers take to download the weights of a model. 0 if they are always on the machine.", []string{"pool", "model"}, nil)
	enginesDesc       = prometheus.NewDesc("reelay_engines", "The engines of pools of engines, by pool and state.", []string{"pool", "state"}, nil)
	providerSlotsDesc = prometheus.NewDesc("reelay_provider_slots",
		"Jobs at the hosted provider of a pool, and how many there may be at a time.", []string{"pool", "kind", "state"}, nil)
	providerCallsDesc = prometheus.NewDesc("reelay_provider_calls_per_minute",
		"Calls at the hosted provider of a pool in the last minute, and how many there may be.", []string{"pool", "kind", "state"}, nil)
	providerStateDesc = prometheus.NewDesc("reelay_provider_state",
		"1 for the state in which the account at a hosted provider is: ready, full, paused, open or trying.", []string{"pool", "kind", "state"}, nil)
	providerUnknownDesc = prometheus.NewDesc("reelay_provider_unknown_submits",
		"Jobs that wait for a decision, since the hosted provider did not answer their submit.", []string{"pool", "kind"}, nil)
	poolCostDesc = poolDesc("reelay_pool_cost_usd_per_hour", "The price of the pool's machines that are paid for now, also of those that boot or end.")
)

func poolDesc(name, help string) *prometheus.Desc { return desc(name, help, "pool") }

// newPools is the pools with their workers and prices, the first maxPools by name. It also
// remembers their names.
func newPools(list func(context.Context) ([]*query.PoolStatus, error), names *poolNames) *gauges[[]*query.PoolStatus] {
	return &gauges[[]*query.PoolStatus]{
		what: "the pools", every: readEvery, read: names.reading(list),
		descs: []*prometheus.Desc{
			poolWorkersDesc, poolDesiredDesc, poolMaxDesc, poolPausedDesc, poolRefusedDesc, poolBootsDesc, poolPriceDesc, poolStaleDesc,
			poolTroubleDesc, poolCostDesc, poolFailsDesc, poolLoadDesc, poolFetchDesc, enginesDesc,
			providerSlotsDesc, providerCallsDesc, providerStateDesc, providerUnknownDesc,
		},
		emit: func(pools []*query.PoolStatus, into chan<- prometheus.Metric) {
			for _, pool := range pools[:min(len(pools), maxPools)] {
				emitPool(pool, into)
			}
		},
	}
}

func emitPool(pool *query.PoolStatus, into chan<- prometheus.Metric) {
	emit := func(desc *prometheus.Desc, value float64, labels ...string) {
		into <- gauge(desc, value, append([]string{pool.Name}, labels...)...)
	}
	emit(poolWorkersDesc, float64(pool.Booting), "booting")
	emit(poolWorkersDesc, float64(pool.Idle), "idle")
	emit(poolWorkersDesc, float64(pool.Busy), "busy")
	emit(poolWorkersDesc, float64(pool.Draining), "draining")
	emit(poolDesiredDesc, float64(pool.Desired))
	emit(poolMaxDesc, float64(pool.MaxWorkers))
	emit(poolRefusedDesc, float64(pool.Refusals))
	emit(poolBootsDesc, float64(pool.BootFailures))
	if u := pool.ProviderAccount; u != nil {
		kind := string(u.Kind)
		emit(providerSlotsDesc, float64(u.Slots), kind, "taken")
		emit(providerSlotsDesc, float64(u.Concurrent), kind, "limit")
		emit(providerCallsDesc, float64(u.CallsInMinute), kind, "made")
		emit(providerCallsDesc, float64(u.PerMinute), kind, "limit")
		emit(providerUnknownDesc, float64(u.Unknown), kind)
		for _, state := range capacity.ProviderStates {
			emit(providerStateDesc, oneIf(u.State() == state), kind, strings.ToLower(string(state)))
		}
	}
	price := pool.Price()
	emit(poolPriceDesc, price.PricePerHourUSD)
	emit(poolStaleDesc, oneIf(price.Stale))
	emit(poolTroubleDesc, oneIf(price.Problem != ""))
	emit(poolCostDesc, float64(pool.PaidWorkers)*price.PricePerHourUSD)
	emit(poolPausedDesc, oneIf(pool.Paused()))
	emit(poolFailsDesc, oneIf(pool.ProviderProblem != ""))
	if pool.HasEngines() {
		count := map[capacity.EngineState]int{}
		for _, e := range pool.Engines {
			count[e.State]++
		}
		for _, state := range capacity.EngineStates {
			emit(enginesDesc, float64(count[state]), strings.ToLower(string(state)))
		}
	}
	for _, load := range pool.ModelLoads[:min(len(pool.ModelLoads), maxModels)] {
		emit(poolLoadDesc, load.LoadSeconds, load.Model)
		emit(poolFetchDesc, load.FetchSeconds, load.Model)
	}
}

// poolNames are the names of pools by their ids. Changes of jobs have the ids only.
type poolNames struct {
	known atomic.Pointer[map[models.PoolID]string]
	bound *bound
	// missed reports whether the name of a pool was asked for that is not known.
	missed atomic.Bool
}

// of returns the label of a pool: "none" for a worker without one.
func (n *poolNames) of(id models.PoolID) string {
	if id == "" {
		return "none"
	}
	known := n.known.Load()
	if known == nil {
		n.missed.Store(true)
		return unknown
	}
	name, ok := (*known)[id]
	if !ok {
		n.missed.Store(true)
	}
	return n.bound.of(name)
}

// reading is list, and remembers the names.
func (n *poolNames) reading(list func(context.Context) ([]*query.PoolStatus, error)) func(context.Context) ([]*query.PoolStatus, error) {
	if list == nil {
		return nil
	}
	return func(ctx context.Context) ([]*query.PoolStatus, error) {
		pools, err := list(ctx)
		if err == nil {
			known := make(map[models.PoolID]string, len(pools))
			for _, pool := range pools {
				known[pool.ID] = pool.Name
			}
			n.known.Store(&known)
			n.missed.Store(false)
		}
		return pools, err
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
