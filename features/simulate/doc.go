// Package simulate runs a fleet and its queues on a virtual clock: what a workload costs, how long
// jobs wait, and what preemptions do to them. It needs no database.
//
// The decisions are made by Reelay's own code: [fairqueue] says which job starts next, [fleet.Plan]
// how many workers a pool has, [checkpoints.PlanOf] how often a worker saves a checkpoint, and
// [estimate] how long jobs take, learned during the run from the catalogue's priors. The machines
// and their clouds come from a [Scenario].
//
// A run depends only on its scenario and seed. The random numbers of a job are drawn before the
// run, so that two policies are compared on the same jobs.
package simulate
