package testrun

import "time"

// QuietClock measures time on a machine that others may keep busy: only the time
// counts in which no process waited for a processor or a disk. A wait for a timer
// that a test must not find is as long by this clock on an idle machine, and a
// call that a busy machine slows down is no longer. Where the kernel does not
// report such waits, nothing counts.
type QuietClock struct {
	began   time.Time
	stalled time.Duration
	known   bool
}

// StartQuietClock starts a clock.
func StartQuietClock() QuietClock {
	stalled, known := stallTime()
	return QuietClock{began: time.Now(), stalled: stalled, known: known}
}

// Elapsed is the quiet time since the clock's start.
func (c QuietClock) Elapsed() time.Duration {
	elapsed := time.Since(c.began)
	stalled, known := stallTime()
	if !c.known || !known {
		return 0
	}
	return max(0, elapsed-(stalled-c.stalled))
}
