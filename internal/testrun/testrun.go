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

	"github.com/reelay/reelay/internal/services"
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

// Command is exec.CommandContext with the test's context. The kernel (of Linux)
// kills the program if the test binary is killed, and the test's end kills its
// process group.
func Command(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	services.DieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
