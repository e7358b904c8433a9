package webhook

// PlanRetry is planRetry.
var PlanRetry = planRetry
