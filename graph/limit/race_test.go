//go:build race

package limit

// RaceFactor is how many times more processor time the race detector needs.
const RaceFactor = 10
