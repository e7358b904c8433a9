package stitch

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill ffmpeg when this program dies.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
