// Package testrun makes test binaries clean up. No process that a test binary starts
// outlives it, the binary does not outlive `go test`, and its temporary files are removed.
// If it is killed, the next run removes them.
package testrun

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

var atEnd struct {
	mu    sync.Mutex
	calls []func()
}

// AtEnd makes Main call a function after the tests, the last one first. It is for what all tests
// of a package share.
func AtEnd(call func()) {
	atEnd.mu.Lock()
	defer atEnd.mu.Unlock()
	atEnd.calls = append(atEnd.calls, call)
}

// Main calls run and exits with its result. run is m.Run, or a function that calls m.Run
// between the setup and the teardown of a package. Call Main in TestMain.
func Main(run func() int) {
	if slices.Contains(os.Args, "-test.paniconexit0") { // `go test` started it
		go endWith(os.Getppid())
	}
	findPrograms()
	removeDir, err := ownTempDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
	code := run()
	for _, call := range slices.Backward(atEnd.calls) {
		call()
	}
	removeDir()
	os.Exit(code)
}

// findPrograms lets tests find, after all others, the programs that tasks built into bin, such as an S3
// server.
func findPrograms() {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, absent := os.Stat(filepath.Join(dir, "go.mod")); absent == nil {
			_ = os.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Join(dir, "bin"))
			return
		}
		dir = filepath.Dir(dir)
	}
}

// endWith ends the process when its parent has ended. The processes that the tests started
// then end too, as when the process is killed.
func endWith(parent int) {
	for os.Getppid() == parent {
		time.Sleep(250 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "testrun: go test has ended, so its tests end too")
	os.Exit(1)
}

// Command is exec.CommandContext with the test's context. The program and its process
// group are killed when the test or the test binary ends, even if the binary is killed.
func Command(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	leader, end := startLeader(t)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader}
	cmd.Cancel = end
	return cmd
}

// startLeader starts the leader of a process group. It kills the group when the other end
// of its standard input is closed: by end, or by the kernel when this process ends.
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
		_ = end() // the context may have done so already
		_ = leader.Wait()
	})
	return leader.Process.Pid, end
}

// Nightly reports whether tests may take hours: REELAY_TEST_NIGHTLY is set, as by
// `go tool task test:nightly`. Otherwise a test must take only a few seconds of processor
// time, with fewer cases or shorter histories.
func Nightly() bool { return os.Getenv("REELAY_TEST_NIGHTLY") != "" }

// AtOnce lets up to n parallel tests of a package run at the same time, unless the command
// line sets the number. It is for tests that mostly wait for other processes; the default
// is the number of processors. Call it in TestMain before the tests run.
func AtOnce(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // cannot fail: the value is a number
	}
}

// WaitLimit is the time after which a wait counts as a hang. It does not measure speed: a
// second on an idle machine can be minutes on a busy one.
const WaitLimit = 5 * time.Minute

const longestPause = 50 * time.Millisecond

// Eventually calls check until it returns true. It is for events without a signal to wait
// for, such as those in other processes. After [WaitLimit] it fails the test with what.
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

// Receive returns the next value of a channel, or the zero value if it is closed. After
// [WaitLimit] it fails the test with what.
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

// QuietClock measures time on a busy machine: it counts only the time in which no process
// waited for a processor or a disk. So a test can tell a wait for a timer, which counts in
// full, from a call that a busy machine slows down. If the kernel does not report such
// waits, the clock stands still.
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

// Elapsed returns the quiet time since the clock's start.
func (c QuietClock) Elapsed() time.Duration {
	elapsed := time.Since(c.began)
	stalled, known := stallTime()
	if !c.known || !known {
		return 0
	}
	return max(0, elapsed-(stalled-c.stalled))
}

// WriteProgram writes an executable file, such as a script with its #! line.
//
// A process that another goroutine starts in the meantime inherits the open file until it
// executes its own program, and so long the kernel refuses to run this one: "text file busy".
// No process is started before the file is closed.
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// FreePort returns a TCP port of 127.0.0.1 that no process listens at. Another process may take it.
func FreePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
