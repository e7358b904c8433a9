// Package testrun keeps a test run within its bounds. Nothing that a test binary
// starts outlives it, it does not outlive `go test`, and its temporary files are
// removed, by the next run if it is killed.
package testrun

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Main calls run, which is m.Run or begins and ends what a package's tests share
// around it, and ends the process with its result. It belongs into TestMain.
func Main(run func() int) {
	if slices.Contains(os.Args, "-test.paniconexit0") { // `go test` started it
		go endWith(os.Getppid())
	}
	removeDir, err := ownTempDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
	code := run()
	removeDir()
	os.Exit(code)
}

// endWith ends the process when its parent has ended. What the tests have
// started ends with it, as it does when the process is killed.
func endWith(parent int) {
	for os.Getppid() == parent {
		time.Sleep(250 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "testrun: go test has ended, and its tests with it")
	os.Exit(1)
}

// Command is exec.CommandContext with the test's context. The program and all
// that it starts in its process group are killed when the test ends, or when the
// test binary does, however that ends.
func Command(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	leader, end := startLeader(t)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader}
	cmd.Cancel = end
	return cmd
}

// startLeader starts a process that leads a process group, and that kills it when
// the other end of its input is closed: by end, or by the kernel when this process
// has ended.
func startLeader(t testing.TB) (pid int, end func() error) {
	t.Helper()
	input, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	leader := exec.Command("/bin/sh", "-c", "read -r line; kill -s KILL 0")
	leader.Stdin = input
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := leader.Start(); err != nil {
		held.Close()
		t.Fatal(err)
	}
	end = held.Close
	t.Cleanup(func() {
		_ = end() // by now the context may have done it
		_ = leader.Wait()
	})
	return leader.Process.Pid, end
}

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

// WaitLimit is after how long a wait counts as a hang. It is no measure of
// speed: what takes a second on an idle machine may take minutes on a busy one.
const WaitLimit = 5 * time.Minute

const longestPause = 50 * time.Millisecond

// Eventually calls check until it returns true. It is for events that cannot be
// waited for otherwise, such as those in other processes. After [WaitLimit] it
// fails the test and says what did not happen.
func Eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	limit := time.Now().Add(WaitLimit)
	for pause := time.Millisecond; !check(); pause = min(2*pause, longestPause) {
		if time.Now().After(limit) {
			t.Fatalf("not within %s: %s", WaitLimit, what)
		}
		time.Sleep(pause)
	}
}

// Receive returns the next value of a channel, or the zero value if it is closed.
// After [WaitLimit] it fails the test and says what did not happen.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	limit := time.NewTimer(WaitLimit)
	defer limit.Stop()
	select {
	case value := <-from:
		return value
	case <-limit.C:
		t.Fatalf("not within %s: %s", WaitLimit, what)
		panic("unreachable")
	}
}

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
