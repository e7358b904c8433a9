package testrun

import (
	"flag"
	"os"
	"strconv"
)

// Nightly tells whether tests may take hours: REELAY_TEST_NIGHTLY is set, as it is in
// `go tool task test:nightly`. Without it, a test takes a few seconds of processor time:
// it has fewer cases or a shorter history of the same kind.
func Nightly() bool { return os.Getenv("REELAY_TEST_NIGHTLY") != "" }

// AtOnce lets up to n parallel tests of a package run at the same time, unless the
// command line says how many. It is for tests that mostly wait for other processes:
// by default only as many run as there are processors. It belongs into TestMain,
// before the tests run.
func AtOnce(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // a number that it takes
	}
}
