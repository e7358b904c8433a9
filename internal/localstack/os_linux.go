package localstack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent makes the kernel send signal to the child when this process ends.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) {
	attr.Pdeathsig = signal
}

// namespaceID is any id except 0: inside the namespace it stands for root.
const namespaceID = 1000

func enterUserNamespace(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: namespaceID, HostID: 0, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: namespaceID, HostID: 0, Size: 1}}
}

// userNamespacesWork tries to create a user namespace. Many containers forbid it.
func userNamespacesWork(program string) bool {
	probe := exec.Command(program, "--version")
	probe.SysProcAttr = &syscall.SysProcAttr{}
	enterUserNamespace(probe.SysProcAttr)
	return probe.Run() == nil
}

// commandLine returns the program and arguments of a process, or "" if it is gone.
func commandLine(pid int) string {
	line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return string(line)
}
