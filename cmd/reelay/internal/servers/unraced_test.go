//go:build !race

package servers

// raced reports whether the race detector runs.
const raced = false
