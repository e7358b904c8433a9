//go:build unix && !linux

package program

import "syscall"

// dieWithParent does nothing, since only Linux has a parent death signal.
func dieWithParent(*syscall.SysProcAttr) {}
