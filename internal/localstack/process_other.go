//go:build unix && !linux

package localstack

import (
	"os/exec"
	"strconv"
)

// commandLine is the program and arguments of a process; empty if it is gone.
func commandLine(pid int) string {
	line, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return string(line)
}
