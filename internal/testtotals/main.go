// Testtotals runs `go test` with its arguments and reports the result: a line for each
// package, the output of failed tests, and a last line with totals. Its exit status is 0
// only if that of go test is 0, a test ran, and no process was left behind.
//
// It ends the run on a signal, when a process in REELAY_FOLLOW ends, or when a test hangs.
// However the run ends, no process that it started is left.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/orphans"
)

// Tests change these.
var (
	// hangTime is how long a run may last while no test begins, ends or prints.
	// It does not limit the run as a whole, which takes longer on a busy machine.
	hangTime = 20 * time.Minute
	// leaveGrace is how long processes that the tests started can take to end after them.
	leaveGrace = 2 * time.Minute
)

// stopGrace is how long go test can take to report after it is stopped.
const stopGrace = 5 * time.Second

func main() {
	passed, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtotals:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// run reports whether all tests passed.
func run(args []string) (bool, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	ctx, err := localstack.Follow(ctx, os.Getenv("REELAY_FOLLOW")+" "+strconv.Itoa(os.Getppid()))
	if err != nil {
		return false, fmt.Errorf("REELAY_FOLLOW: %w", err)
	}
	os.Unsetenv("REELAY_FOLLOW") // the tests end with this process
	if err := orphans.Adopt(); err != nil {
		return false, err
	}
	report, err := goTest(ctx, args)
	if err != nil {
		return false, err
	}
	left := endOrphans(leaveGrace)
	for _, process := range left {
		fmt.Printf("left  %s\n", process)
	}
	report.total()
	switch {
	case ctx.Err() != nil:
		fmt.Printf("interrupted (%v): the rest was not tested\n", context.Cause(ctx))
		return false, nil
	case len(left) > 0 && report.failed == 0:
		fmt.Println("processes were left over and have been killed: see the lines that begin with left")
	}
	return report.passing && report.failed == 0 && !report.empty() && len(left) == 0, nil
}

// goTest runs go test until it or ctx ends.
func goTest(ctx context.Context, args []string) (*report, error) {
	program, err := exec.LookPath("go")
	if err != nil {
		return nil, err
	}
	events, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer events.Close()
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: "go test", Path: program, Args: append([]string{"test", "-json"}, args...),
		Output: output, Stop: syscall.SIGINT, Grace: stopGrace,
	})
	output.Close()
	if err != nil {
		return nil, err
	}
	defer orphans.Reap(child.Pid())()
	defer context.AfterFunc(ctx, func() { child.Stop(context.Background()) })()

	report := newReport(os.Stdout)
	hang := time.AfterFunc(hangTime, func() { endHung(child) })
	hang.Stop()
	err = report.read(events, func() {
		if len(report.running) > 0 {
			hang.Reset(hangTime)
		} else {
			hang.Stop() // go test prints nothing while it compiles
		}
	})
	hang.Stop()
	if err != nil {
		child.Kill()
	}
	<-child.Done()
	report.passing = child.ExitCode() == 0
	return report, err
}

// endHung ends go test. Its test binaries first print the stacks of their goroutines, which
// go test reports.
func endHung(child *localstack.Child) {
	fmt.Printf("hang: no test began, ended or printed anything for %s\n", hangTime)
	_ = syscall.Kill(-child.Pid(), syscall.SIGQUIT)
	select {
	case <-child.Done():
	case <-time.After(leaveGrace):
		child.Kill()
	}
}
