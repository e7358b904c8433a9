package fairqueue

import "slices"

const (
	// Window is how many accounts at the head of a line a worker may choose among: enough
	// to find one whose model is loaded.
	Window = 8
	// WindowTime is how far, in virtual time, a choice may be behind the first account: so
	// much may an account get ahead of its turn because its model is loaded.
	WindowTime = 300
)

// Choose sorts the heads of a line, which are in order, so that those in the window come
// by what they cost a worker, and in order where that is the same. Beyond the window the
// order stays: each account has its turn first.
func Choose[T any](heads []T, virtualTime func(T) float64, cost func(T) int) {
	within := min(len(heads), Window)
	for within > 0 && virtualTime(heads[within-1]) > virtualTime(heads[0])+WindowTime {
		within--
	}
	slices.SortStableFunc(heads[:within], func(a, b T) int { return cost(a) - cost(b) })
}
