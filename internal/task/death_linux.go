package main

import "syscall"

// dieWithParent makes the kernel send signal to the child when this process ends.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
