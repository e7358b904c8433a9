package ready

import "github.com/reelay/reelay/jobs/doctor"

// Access is the part of Examine that makes no call.
func (x *Index) Access() doctor.Finding { return x.access() }
