// Task is what `go tool task` runs: go-task with the same arguments, but nothing that it started
// outlives it. The version of go-task is that in go.mod.
//
// go-task does not end on the first two signals, and passes none on. So this program ends the
// run on SIGINT, SIGTERM, SIGHUP, and when its parent ends. It kills go-task, which keeps no
// state. Programs with the environment variable REELAY_FOLLOW notice that and end in their own
// order. All others get SIGTERM. Programs that do not end in time are killed.
//
// It consists of two processes with the same code, the outer one above the inner one, which is
// above go-task. If one of them is killed, the other one ends the run. On Linux they adopt each
// process whose parent ended. Elsewhere they know only the processes that they saw below them,
// and the end of the inner one is noticed only by programs with REELAY_FOLLOW.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// innerName is the name by which the inner process is started.
const innerName = "reelay-task"

func main() {
	// A child gets the signal of its parent's death when the thread that started it ends.
	runtime.LockOSThread()
	code, err := run(os.Args[0], os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "task:", err)
	}
	os.Exit(code)
}

// run returns the exit status: that of go-task, or 128 and the signal that ended the run.
func run(name string, args []string) (int, error) {
	if name == innerName {
		program, err := goTask()
		if err != nil {
			return 1, err
		}
		// The programs that it runs need not wait for it.
		return supervise(exec.Command(program, args...), syscall.SIGKILL)
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	inner := exec.Command(self, args...)
	inner.Args[0] = innerName
	return supervise(inner, syscall.SIGTERM)
}
