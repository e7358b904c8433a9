package lease

// Looking returns how many lease calls look for a job or wait for their turn.
func Looking(l *Leaser) int { return l.looks.Calls() }

// HoldTogether makes calls about leases wait, as if a batch were running, until run runs them:
// checkpoints and uploads, ends, and heartbeats.
func HoldTogether(h *Holder) (waiting func() int, run func()) {
	keep, end, beat := h.keeping.Hold(), h.ending.Hold(), h.beats.Hold()
	waiting = func() int { return h.keeping.Calls() + h.ending.Calls() + h.beats.Calls() }
	return waiting, func() { keep(); end(); beat() }
}
