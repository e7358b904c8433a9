package lease

// Looking returns how many lease calls look for a job or wait for their turn.
func Looking(l *Leaser) int { return l.looks.Calls() }

// BatchTogether makes calls about leases wait, as if a batch were running, until run runs them:
// checkpoints and uploads, ends, and heartbeats.
func BatchTogether(h *Attempts) (waiting func() int, run func()) {
	keep, end, beat := h.keeping.Block(), h.ending.Block(), h.beats.Block()
	waiting = func() int { return h.keeping.Calls() + h.ending.Calls() + h.beats.Calls() }
	return waiting, func() { keep(); end(); beat() }
}
