//go:build race

package graph

// raceFactor is how many times as much processor time the race detector takes.
const raceFactor = 10
