package agent

import "time"

const (
	// yieldWithin is how long the job has to give way after the first request. The control
	// plane forgets the request after that, too.
	yieldWithin = 2 * time.Minute
	// yieldLoss is how much work the job may lose if its runtime makes no checkpoint.
	yieldLoss = time.Minute
)

// yielding is the control plane's request that the job gives way to one of a higher lane. Only
// the first request of an attempt counts: each heartbeat repeats it.
type yielding struct {
	askedAt time.Time // zero: never
	open    bool
}

// askToYield asks the runtime for the checkpoint that the job goes on from later.
func (w *watch) askToYield() {
	if !w.yield.askedAt.IsZero() || w.release {
		return
	}
	w.log.Info("asked to give way to a job of a higher lane")
	w.yield = yielding{askedAt: time.Now(), open: true}
	w.askCheckpoint()
}

// gaveWay reports whether the job's state is saved, so that it can give way now. If it cannot be
// saved, the job goes on.
func (w *watch) gaveWay() bool {
	if !w.yield.open || !w.asked.IsZero() || w.saver.busy || w.handles.busy {
		return false
	}
	w.yield.open = false
	lost := time.Since(w.saver.savedAt)
	fresh := w.saver.savedAt.After(w.yield.askedAt)
	if time.Since(w.yield.askedAt) > yieldWithin || !fresh && lost > yieldLoss {
		w.log.Warn("the job does not give way: its state could not be saved in time", "error", w.saver.failed)
		return false
	}
	return true
}
