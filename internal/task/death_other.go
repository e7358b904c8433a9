//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this kernel has no such feature.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
