// Package bulk applies one action to many jobs, at a pace, in parts that survive the end of a process.
// Accounts take turns.
package bulk
