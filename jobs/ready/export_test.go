package ready

import "github.com/reelay/reelay/jobs"

// Access is the part of Examine that asks nobody.
func (x *Index) Access() jobs.Finding { return x.access() }
