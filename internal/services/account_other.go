//go:build unix && !linux

package services

import "syscall"

func enterUserNamespace(*syscall.SysProcAttr) {}

func userNamespacesWork(string) bool { return false }
