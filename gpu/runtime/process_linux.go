package runtime

import "syscall"

// dieWithParent has the kernel kill the runtime when we die.
func dieWithParent(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
}
