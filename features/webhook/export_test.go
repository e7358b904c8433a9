package webhook

import "time"

// PlanRetry is planRetry.
var PlanRetry = planRetry

// ExtendEvery changes how often the claim of a copy in progress is extended.
func (d *Deliverer) ExtendEvery(every time.Duration) { d.extendEvery = every }
