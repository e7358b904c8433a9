package estimate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/hostedengine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
)

// CostUSD returns what a job will cost on own GPUs, in US dollars: the time of its render at the price of the dearest pool
// that may run it now, so that the job hardly costs more wherever it runs. It returns nil if no such pool has a price, or
// without a forecast.
func (e *Estimator) CostUSD(job *models.Job) (usd *decimal.Decimal) {
	e.Look(func(o *Forecast) { usd = o.cost(job) })
	return usd
}

// JobUSD returns what a job will cost, in US dollars: what the hosted provider of its model charges, and [Estimator.CostUSD].
// It returns nil if that is unknown.
func (e *Estimator) JobUSD(ctx context.Context, job *models.Job) (*decimal.Decimal, error) {
	own := e.CostUSD(job)
	fee, hosted, err := e.fee(ctx, job)
	if !hosted || err != nil {
		return own, err
	}
	if fee != nil && own != nil {
		return new(fee.Add(*own)), nil
	}
	return fee, nil
}

// fee returns what the hosted provider of a job's model charges for it, or nil if the price is unknown, and whether the
// model has such a provider. It reads the price book at most once a second for equal requests.
func (e *Estimator) fee(ctx context.Context, job *models.Job) (usd *decimal.Decimal, hosted bool, err error) {
	if e == nil {
		return nil, false, nil
	}
	m := e.Catalogue.Current().At(job.Model, job.ModelVersion)
	if m == nil {
		return nil, false, nil
	}
	adapter := provider.Find(m.Runtime)
	if adapter == nil {
		return nil, false, nil
	}
	params := map[string]any{}
	if err := json.Unmarshal(job.Params, &params); err != nil {
		return nil, true, fmt.Errorf("read the params: %w", err)
	}
	asked, err := hostedengine.Ask(adapter, m.Settings, m.Name, params)
	if err != nil {
		return nil, true, nil // the agent will say what is wrong with the request
	}
	key, err := json.Marshal([]any{m.Runtime, asked})
	if err != nil {
		return nil, true, err
	}
	now := time.Now()
	if usd, fresh := e.fees.Get(string(key), now); fresh {
		return usd, true, nil
	}
	if usd, err = costs.ProviderFee(ctx, e.DB, m.Runtime, asked); err != nil {
		return nil, true, fmt.Errorf("look up the price of %s: %w", m.Runtime, err)
	}
	e.fees.Keep(string(key), usd, now)
	return usd, true, nil
}

// Fresh refreshes the forecast if there is none, or it is older than age. It is for decisions that must not be made
// without one, such as whether a budget is exceeded.
func (e *Estimator) Fresh(ctx context.Context, age time.Duration) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	fresh := e.forecast != nil && time.Since(e.at) < age
	e.mu.Unlock()
	if fresh {
		return nil
	}
	return e.Refresh(ctx)
}

func (o *Forecast) cost(job *models.Job) (most *decimal.Decimal) {
	if job.Approval() {
		return new(decimal.Zero)
	}
	q := job.Queue()
	for _, c := range o.newWorkers.Capacity {
		if c.PricePerHourUSD == nil || *c.PricePerHourUSD <= 0 || !c.Runs(job.Model, job.Lane, job.AccountID, job.Needs, q.Region) {
			continue
		}
		seconds := job.EstimatedGPUSeconds * o.times.Ratio(kindOf(job), c.GPUType)
		usd := decimal.NewFromFloat(seconds).Mul(decimal.NewFromFloat(*c.PricePerHourUSD)).Div(secondsPerHour).Round(10)
		if most == nil || usd.GreaterThan(*most) {
			most = &usd
		}
	}
	return most
}

var secondsPerHour = decimal.NewFromInt(3600)
