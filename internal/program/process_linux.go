package program

import "syscall"

// dieWithParent makes the kernel kill the program when this process dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
