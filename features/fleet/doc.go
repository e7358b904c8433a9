// Package fleet has the capacity: workers that register, pools, and the scaler.
//
// In one round the scaler reads a snapshot, plans for all pools without I/O, and applies the plan.
package fleet
