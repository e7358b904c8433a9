//go:build unix && !linux

package localstack

import "syscall"

// dieWithParent does nothing: this kernel has no such feature, so only the guard ends the
// child.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
