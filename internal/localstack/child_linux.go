package localstack

import "syscall"

// dieWithParent has the kernel send signal to the child when we die.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) {
	attr.Pdeathsig = signal
}
