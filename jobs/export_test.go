package jobs

// Waiting is how many lease calls wait in this process.
func (w *Waiters) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// What a doctor makes of what PostgreSQL says.
var (
	Settings = settings
	Drift    = drift
)
