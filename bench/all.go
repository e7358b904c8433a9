package bench

import "fmt"

// All returns the measurements in the order in which they are made.
func All() []Measurement {
	return []Measurement{
		submitBy(1), submitBy(32), submitBy(128), submitMany(),
		leaseAndComplete(), verifiedCompletions(), backlog(),
		heartbeats(), progress(), checkpoints(),
		pickups(), busyPickups(), delayed(), schedules(),
		subscriptions(), followers(),
		daily(), stores(), fleet(), neighbours(), bloat(),
		growth(),
	}
}

// Named returns the measurements with these names, or all if there are no names.
func Named(names []string) ([]Measurement, error) {
	known := map[string]bool{}
	for _, m := range All() {
		known[m.Name] = true
	}
	wanted := map[string]bool{}
	for _, name := range names {
		if !known[name] {
			return nil, fmt.Errorf("there is no measurement %q; see --help", name)
		}
		wanted[name] = true
	}
	var picked []Measurement
	for _, m := range All() {
		if len(names) == 0 || wanted[m.Name] {
			picked = append(picked, m)
		}
	}
	return picked, nil
}
