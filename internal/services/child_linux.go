package services

import "syscall"

// DieWithParent lets the kernel send signal to a child when the thread that starts
// it ends, as all do when this process ends. Only Linux can.
func DieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) {
	attr.Pdeathsig = signal
}
