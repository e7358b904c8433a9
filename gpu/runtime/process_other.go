//go:build unix && !linux

package runtime

import "syscall"

// dieWithParent has nothing to ask of this kernel: a runtime ends when its
// standard input does.
func dieWithParent(*syscall.SysProcAttr) {}
