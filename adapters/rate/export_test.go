package rate

import "github.com/reelay/reelay/internal/testrun"

// Patient makes calls wait however long a busy machine takes.
func (l *Limiter) Patient() *Limiter {
	l.timeout = testrun.WaitLimit
	return l
}
