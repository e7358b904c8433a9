package webhook

// PlanRetry is when to try a delivery again.
var PlanRetry = planRetry
