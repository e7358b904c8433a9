package command

import "syscall"

// dieWithParent makes the kernel kill the program when the runtime dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
