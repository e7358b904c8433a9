// Package fleet manages the capacity: registered workers, pools, and the scaler.
//
// In one round the scaler reads a snapshot, plans for all pools without I/O, and applies the plan.
package fleet
