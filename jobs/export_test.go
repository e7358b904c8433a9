package jobs

// Waiting is how many lease calls wait in this process.
func (w *Waiters) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// Looking is how many lease calls look for work or wait for their turn to.
func Looking(l *Leaser) int { return l.looks.Calls() }

// Submitting is how many calls wait for their account's row, or hold it.
func Submitting(s *Submitter) int { return s.accountWrites.Calls() + s.writes.Calls() }

// HoldTogether has calls over leases wait, as if others were at work, until run runs
// those that wait: what keeps a lease together, what ends one, and what beats.
func HoldTogether(h *Holder) (waiting func() int, run func()) {
	keep, end, beat := h.keeping.Hold(), h.ending.Hold(), h.beats.Hold()
	waiting = func() int { return h.keeping.Calls() + h.ending.Calls() + h.beats.Calls() }
	return waiting, func() { keep(); end(); beat() }
}
