package estimate

import (
	"cmp"
	"slices"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
)

// StartCost is what a job costs on a worker that takes it now: the worker's price for the seconds in
// which it loads the model, unless it is in memory, and renders.
type StartCost struct {
	USD float64
	// Seconds is how long that takes. It decides between workers of the same cost.
	Seconds float64
}

// NewStartCost returns the cost from the price and the seconds.
func NewStartCost(pricePerHourUSD, loadSeconds, renderSeconds float64) StartCost {
	return StartCost{pricePerHourUSD * (loadSeconds + renderSeconds) / 3600, loadSeconds + renderSeconds}
}

// Compare compares costs: first the money, then the time.
func (c StartCost) Compare(other StartCost) int {
	return cmp.Or(cmp.Compare(c.USD, other.USD), cmp.Compare(c.Seconds, other.Seconds))
}

// coldSeconds is the load of a model that was never measured. It only decides between workers.
const coldSeconds = 1

// StartCost returns what a typical job of a model costs on a worker. It reads nothing.
func (e *Estimator) StartCost(model *catalogue.Model, on *models.Worker) StartCost {
	load, render := float64(coldSeconds), model.EstimateGPUSeconds(nil)
	if e != nil {
		if known := e.warmth.Load(); known != nil {
			render *= known.times.Ratio(backlog.Kind{Model: model.Name}, on.GPUType)
			load = max(load, known.load(model.Name, on).Seconds())
		}
	}
	if slices.Contains(on.WarmModels, model.Name) {
		load = 0
	}
	return NewStartCost(lo.FromPtr(on.PricePerHourUSD), load, render)
}
