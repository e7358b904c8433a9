package bench

import (
	"context"
	"fmt"
)

// Figures are what one round brought, by name: "rate" is per second, "p50" and
// "p99" are milliseconds, and a measurement may have others.
type Figures map[string]float64

// Role is what a contestant is to us.
type Role string

const (
	Ours  Role = "ours"
	Limit Role = "limit"
	Peer  Role = "peer"
)

// Contestant is one of those that are compared.
type Contestant struct {
	Name string
	Role Role
	// Round measures once.
	Round func(ctx context.Context) (Figures, error)
	// Differs says what of its work is not what ours is.
	Differs string
}

// Target is what a figure of ours shall be: at least so many times that of
// another contestant, or at most if AtMost says so. Without another it is a
// number of its own.
type Target struct {
	Name   string
	Figure string
	// Of is which of ours, if there are several; empty is the first.
	Of      string
	Against string
	Bound   float64
	AtMost  bool
}

// Measurement is one thing that is measured, always in this shape.
type Measurement struct {
	// Name is that of the command: measurements of the same name are made together.
	Name string
	// Title says what it is, Unit what its rate counts.
	Title, Unit string
	// Rounds is how many there are at most, 0 for as many as is asked for: some
	// take long.
	Rounds int
	// InTurn has a contestant make all its rounds before the next: each changes
	// the site.
	InTurn  bool
	Targets []Target
	// Prepare makes ready on the site and returns who takes part. One that cannot
	// be had is missing from them: Site.Lacks tells why.
	Prepare func(ctx context.Context, site *Site) ([]Contestant, error)
	// Note says what else to know of the figures.
	Note string
}

// All are the measurements, in the order in which they are made.
func All() []Measurement {
	return []Measurement{
		submitBy(1), submitBy(32), submitBy(128), submitMany(),
		leaseAndComplete(), verifiedCompletions(), backlog(),
		heartbeats(), progress(), checkpoints(),
		pickups(), busyPickups(),
		subscriptions(), followers(),
		daily(), bloat(),
		growth(),
	}
}

// Named picks the measurements of these names; none means all.
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
