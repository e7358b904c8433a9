package localstack

import (
	"os/exec"
	"syscall"
)

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
