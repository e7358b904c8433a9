package fairqueue

import "slices"

// Share is an account's part in one line.
type Share struct {
	VirtualTime float64
	// Weight is how much GPU time the account gets in proportion to others.
	Weight float64
}

// Stands tells whether an account stands in a line: it has jobs queued there, and runs
// fewer, in all lines together, than it may.
func Stands(queued, running, maxRunning int) bool { return queued > 0 && running < maxRunning }

// Enter puts the account into a line at that time of the line, or at its own if that is
// later.
func (s *Share) Enter(lineTime float64) { s.VirtualTime = max(s.VirtualTime, lineTime) }

// Advance counts the start of work that takes so many GPU seconds.
func (s *Share) Advance(gpuSeconds float64) { s.VirtualTime += gpuSeconds / s.Weight }

// LineTime returns the virtual time of a line: the least of the accounts that stand in
// it, or reached if none does, which is the greatest that any account has ever had there.
func LineTime(standing []float64, reached float64) float64 {
	if len(standing) == 0 {
		return reached
	}
	return slices.Min(standing)
}
