package ready

import (
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/testrun"
)

// Access is the part of Examine that makes no call.
func (x *Examiner) Access() doctor.Finding { return x.access() }

// Patient makes calls wait however long a busy machine takes.
func (x *Index) Patient() *Index {
	x.timeout = testrun.WaitLimit
	return x
}

// Patient makes calls wait however long a busy machine takes.
func (n *Notifications) Patient() *Notifications {
	n.timeout = testrun.WaitLimit
	return n
}
