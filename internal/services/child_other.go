//go:build unix && !linux

package services

import "syscall"

// DieWithParent has nothing to ask of this kernel.
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
