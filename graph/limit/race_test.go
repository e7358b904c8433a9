//go:build race

package limit

// RaceFactor is how many times as much processor time the race detector takes.
const RaceFactor = 10
