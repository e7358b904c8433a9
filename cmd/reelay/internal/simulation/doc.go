// Package simulation has `reelay simulate`, which replays a workload on simulated fleets.
package simulation
