package estimate

import (
	"cmp"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
)

// StartCost is what a job costs on a worker that takes it: the worker's price for the seconds in which
// its machine boots, unless it has, in which it loads the model, unless that is in memory, and in which it
// renders. Claims, the scaler and the simulation choose by it, and explanations show it.
type StartCost struct {
	PricePerHourUSD                         float64
	BootSeconds, LoadSeconds, RenderSeconds float64
}

// What the parts of a start take until some were measured.
const (
	BootGuess = 2 * time.Minute
	LoadGuess = time.Minute
)

// UnmeasuredLoad is the seconds of a load on a running worker that was never measured. It only decides between
// workers that cost the same.
const UnmeasuredLoad = 1

// Seconds is how long that takes. It decides between workers of the same cost.
func (c StartCost) Seconds() float64 { return c.BootSeconds + c.LoadSeconds + c.RenderSeconds }

// USD is price × (boot + load + render).
func (c StartCost) USD() float64 { return c.PricePerHourUSD * c.Seconds() / 3600 }

// Compare compares costs: first the money, then the time.
func (c StartCost) Compare(other StartCost) int {
	return cmp.Or(cmp.Compare(c.USD(), other.USD()), cmp.Compare(c.Seconds(), other.Seconds()))
}

// StartCost returns what a typical job of a model costs on a worker. It reads nothing.
func (e *Estimator) StartCost(model *catalogue.Model, on *models.Worker) StartCost {
	c := StartCost{PricePerHourUSD: lo.FromPtr(on.PricePerHourUSD), LoadSeconds: UnmeasuredLoad, RenderSeconds: model.EstimateGPUSeconds(nil)}
	if e != nil {
		if known := e.warmth.Load(); known != nil {
			c.RenderSeconds *= known.times.Ratio(backlog.Kind{Model: model.Name}, on.GPUType)
			c.LoadSeconds = max(c.LoadSeconds, known.load(model.Name, on).Seconds())
		}
	}
	if slices.Contains(on.WarmModels, model.Name) {
		c.LoadSeconds = 0
	}
	return c
}
