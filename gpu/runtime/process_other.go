//go:build unix && !linux

package runtime

import "syscall"

// dieWithParent does nothing, since only Linux has a parent death signal. The
// runtime ends when its standard input ends.
func dieWithParent(*syscall.SysProcAttr) {}
