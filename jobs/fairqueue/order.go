package fairqueue

import (
	"cmp"
	"slices"

	"github.com/reelay/reelay/models"
)

// Turns counts, for each lane, how many of its own jobs have started since its last
// promoted one.
type Turns map[models.Tier]int

// TurnsOf returns the turns of these lanes.
func TurnsOf(lanes ...models.LaneState) Turns {
	turns := Turns{}
	for _, lane := range lanes {
		turns[lane.Lane] = lane.SincePromoted
	}
	return turns
}

// Promoted reports whether the next start in a lane is the turn of its promoted line.
func (t Turns) Promoted(lane models.Tier) bool { return t[lane] >= models.PromotedEvery-1 }

// Start counts a start in a line.
func (t Turns) Start(line models.Line) {
	if line.Promoted {
		t[line.Lane] = 0
	} else {
		t[line.Lane] = min(t[line.Lane]+1, models.PromotedEvery-1)
	}
}

// Left returns how many jobs of a line start in a row before its lane's other line has
// its turn, if both have jobs. It is 0 if the turn is the other line's now.
func (t Turns) Left(line models.Line) int {
	switch {
	case line.Promoted != t.Promoted(line.Lane):
		return 0
	case line.Promoted:
		return 1
	}
	return models.PromotedEvery - 1 - t[line.Lane]
}

// CompareLines orders two lines by rules 1 and 2.
func (t Turns) CompareLines(a, b models.Line) int { return CompareLines(a, b, t.Promoted(a.Lane)) }

// CompareLines is Turns.CompareLines, where promoted says whether it is the turn of the
// promoted line of a's lane.
func CompareLines(a, b models.Line, promoted bool) int {
	switch {
	case a.Lane != b.Lane && a.Lane.Above(b.Lane):
		return -1
	case a.Lane != b.Lane:
		return 1
	case a.Promoted == b.Promoted:
		return 0
	case a.Promoted == promoted:
		return -1
	}
	return 1
}

// Place is where the first job of an account stands in a line.
type Place struct {
	models.Line
	// VirtualTime is the account's in the line.
	VirtualTime float64
	// Order is the job's among its account's. It also decides between accounts at one
	// virtual time.
	Order int64
}

// Compare orders two places by rules 1 to 3.
func (t Turns) Compare(a, b Place) int {
	return cmp.Or(t.CompareLines(a.Line, b.Line), cmp.Compare(a.VirtualTime, b.VirtualTime), cmp.Compare(a.Order, b.Order))
}

// Merge returns the jobs of a lane's two lines, each in its order, in the order in which
// they start. since is how many of the lane's own jobs have started since its last
// promoted one.
func Merge[T any](own, promoted []T, since int) []T {
	const lane = models.TierCritical // any will do
	turns, order := Turns{lane: since}, make([]T, 0, len(own)+len(promoted))
	for len(own)+len(promoted) > 0 {
		line := models.Line{Lane: lane, Promoted: len(own) == 0 || len(promoted) > 0 && turns.Promoted(lane)}
		from := &own
		if line.Promoted {
			from = &promoted
		}
		order, *from = append(order, (*from)[0]), (*from)[1:]
		turns.Start(line)
	}
	return order
}

// Share is an account's part in one line.
type Share struct {
	VirtualTime float64
	// Weight is how much GPU time the account gets in proportion to others.
	Weight float64
}

// Eligible reports whether an account is in a line: it has jobs queued there, and its running
// jobs, in all lines together, are below its limit.
func Eligible(queued, running, maxRunning int) bool { return queued > 0 && running < maxRunning }

// Enter puts the account into a line whose virtual time is lineTime. An account whose own
// virtual time is later keeps it.
func (s *Share) Enter(lineTime float64) { s.VirtualTime = max(s.VirtualTime, lineTime) }

// Advance adds work that takes gpuSeconds, divided by the weight, to the virtual time.
func (s *Share) Advance(gpuSeconds float64) { s.VirtualTime += gpuSeconds / s.Weight }

// LineTime returns the virtual time of a line: the least of the accounts that stand in
// it, or reached if none does, which is the greatest that any account has ever had there.
func LineTime(standing []float64, reached float64) float64 {
	if len(standing) == 0 {
		return reached
	}
	return slices.Min(standing)
}

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
