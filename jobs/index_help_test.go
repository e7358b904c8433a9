package jobs_test

import "github.com/reelay/reelay/jobs/jobstest"

// lost empties the ready index like a FLUSHALL, in one of two subtests.
var lost = map[string]func(*jobstest.Stack){
	"ByTheIndex":       func(*jobstest.Stack) {},
	"WithTheIndexLost": func(s *jobstest.Stack) { s.Index().Lose() },
}
