package bench

import (
	"context"
)

// Figures are the results of one round by name: "rate" is per second, "p50" and "p99" are
// in milliseconds, and a measurement can have others.
type Figures map[string]float64

// Role says whether a contestant is Reelay, the limit or a peer.
type Role string

const (
	Ours  Role = "ours"
	Limit Role = "limit"
	Peer  Role = "peer"
)

// Contestant is one of the compared systems.
type Contestant struct {
	Name string
	Role Role
	// Round measures once.
	Round func(ctx context.Context) (Figures, error)
	// Differs says how its work differs from Reelay's.
	Differs string
}

// Target is a bound for a figure of Reelay: a minimum, or a maximum if AtMost is set. It is
// a multiple of another contestant's figure or, without another contestant, a number.
type Target struct {
	Name   string
	Figure string
	// Of names a contestant of Reelay if there are several. Empty means the first.
	Of      string
	Against string
	Bound   float64
	AtMost  bool
}

// Measurement is one measurement.
type Measurement struct {
	// Name is the name in the command. Measurements with the same name are made together.
	Name string
	// Title describes it. Unit is what its rate counts.
	Title, Unit string
	// Rounds is the maximum number of rounds, for measurements that take long. 0 means no
	// maximum.
	Rounds int
	// InTurn lets each contestant make all its rounds before the next one, because each
	// changes the site.
	InTurn  bool
	Targets []Target
	// Prepare prepares the site and returns the contestants. It leaves out those that are not
	// available and reports them with Site.Lacks.
	Prepare func(ctx context.Context, site *Site) ([]Contestant, error)
	// Note explains the figures.
	Note string
}
