// Package simulate plays a fleet and its queues on a virtual clock: what a workload costs, how
// long jobs wait, and what preemptions do to them. It needs no database.
//
// What decides is Reelay's own code: [fairqueue] says which job starts next, [fleet.Plan] how
// many workers a pool has, [checkpoints.PlanOf] how often a worker saves a checkpoint, and
// [estimate] how long jobs take, learned during the run from the catalogue's priors. What is
// decided about, the machines and their clouds, comes from a [Scenario].
//
// A run depends on its scenario and seed only. A job's own random numbers are drawn before the
// run, so that two policies are compared on the same jobs.
package simulate
