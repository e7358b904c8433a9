package tasks

import "github.com/reelay/reelay/internal/testrun"

// Patient makes calls wait however long a busy machine takes.
func (q Queue) Patient() Queue {
	q.timeout = testrun.WaitLimit
	return q
}
