//go:build race

package servers

// raced reports whether the race detector runs. Programs allocate differently under it.
const raced = true
