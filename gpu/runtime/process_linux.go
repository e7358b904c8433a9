package runtime

import "syscall"

// dieWithParent makes the kernel kill the runtime when the agent dies.
func dieWithParent(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
}
