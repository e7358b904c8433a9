//go:build unix && !linux

package localstack

import (
	"os/exec"
	"strconv"
	"syscall"
)

// dieWithParent does nothing: this kernel has no such feature, so only the guard ends the
// child.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func enterUserNamespace(*syscall.SysProcAttr) {}

func userNamespacesWork(string) bool { return false }

// commandLine returns the program and arguments of a process, or "" if it is gone.
func commandLine(pid int) string {
	line, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return string(line)
}
