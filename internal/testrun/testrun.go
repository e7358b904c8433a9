// Package testrun keeps a test run within its bounds. Nothing that a test binary
// starts outlives it, it does not outlive `go test`, and its temporary files are
// removed, by the next run if it is killed.
package testrun

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
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
