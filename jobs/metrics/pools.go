package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/jobs/query"
)

// pools are the workers of each pool, read at most once in readEvery.
type pools struct {
	list func(context.Context) ([]*query.PoolStatus, error)

	mu    sync.Mutex
	at    time.Time
	known []*query.PoolStatus
}

var (
	poolWorkersDesc = prometheus.NewDesc("reelay_pool_workers", "Workers by pool and state.", []string{"pool", "state"}, nil)
	poolDesiredDesc = poolDesc("reelay_pool_workers_desired", "How many workers the scaler's last decision wants, by pool.")
	poolMaxDesc     = poolDesc("reelay_pool_workers_max", "How many workers the pool may have.")
	poolPausedDesc  = poolDesc("reelay_pool_paused", "1 if an operator paused the pool.")
	poolRefusedDesc = poolDesc("reelay_pool_refusals", "How many creations in a row the pool's provider refused.")
	poolPriceDesc   = poolDesc("reelay_pool_price_usd", "The price of a worker for an hour, in US dollars.")
	poolStaleDesc   = poolDesc("reelay_pool_price_stale", "1 if the price is an old one of its source.")
	poolFailsDesc   = poolDesc("reelay_pool_provider_failing", "1 if the provider could not list or delete the pool's machines when it was last asked.")
	poolTroubleDesc = poolDesc("reelay_pool_price_problem", "1 if the source of the price gave none when it was last read.")
	poolLoadDesc    = prometheus.NewDesc("reelay_pool_model_load_seconds", "How long workers take to load a model, without the download of its weights.", []string{"pool", "model"}, nil)
	poolFetchDesc   = prometheus.NewDesc("reelay_pool_model_fetch_seconds", "How long workers take to download the weights of a model. 0 if they are always on the machine.", []string{"pool", "model"}, nil)
	poolCostDesc    = poolDesc("reelay_pool_cost_usd_per_hour", "The price of the pool's workers, also of those that boot or drain.")
)

func poolDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"pool"}, nil)
}

// Describe implements prometheus.Collector.
func (p *pools) Describe(into chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{poolWorkersDesc, poolDesiredDesc, poolMaxDesc, poolPausedDesc, poolRefusedDesc, poolPriceDesc, poolStaleDesc, poolTroubleDesc, poolCostDesc, poolFailsDesc, poolLoadDesc, poolFetchDesc} {
		into <- desc
	}
}

// Collect implements prometheus.Collector.
func (p *pools) Collect(into chan<- prometheus.Metric) {
	for _, pool := range p.read() {
		gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
			into <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{pool.Name}, labels...)...)
		}
		gauge(poolWorkersDesc, float64(pool.Booting), "booting")
		gauge(poolWorkersDesc, float64(pool.Idle), "idle")
		gauge(poolWorkersDesc, float64(pool.Busy), "busy")
		gauge(poolWorkersDesc, float64(pool.Draining), "draining")
		gauge(poolDesiredDesc, float64(pool.Desired))
		gauge(poolMaxDesc, float64(pool.MaxWorkers))
		gauge(poolRefusedDesc, float64(pool.Refusals))
		price := pool.Price()
		gauge(poolPriceDesc, price.PricePerHourUSD)
		gauge(poolStaleDesc, oneIf(price.Stale))
		gauge(poolTroubleDesc, oneIf(price.Problem != ""))
		gauge(poolCostDesc, float64(pool.Booting+pool.Idle+pool.Busy+pool.Draining)*price.PricePerHourUSD)
		gauge(poolPausedDesc, oneIf(pool.Paused()))
		gauge(poolFailsDesc, oneIf(pool.ProviderProblem != ""))
		for _, load := range pool.ModelLoads {
			gauge(poolLoadDesc, load.LoadSeconds, load.Model)
			gauge(poolFetchDesc, load.FetchSeconds, load.Model)
		}
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (p *pools) read() []*query.PoolStatus {
	if p.list == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= readEvery {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		known, err := p.list(ctx)
		if err != nil {
			slog.WarnContext(ctx, "the pools cannot be read for a scrape", "error", err)
		}
		p.known, p.at = known, time.Now()
	}
	return p.known
}
