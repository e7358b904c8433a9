package jobs_test

import (
	"flag"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
)

func TestMain(m *testing.M) {
	// A few long histories on real stores. -rapid.checks=100 tests more.
	for name, value := range map[string]string{"rapid.checks": "4", "rapid.steps": "60", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	jobstest.Main(m)
}
