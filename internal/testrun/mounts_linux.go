package testrun

import (
	"os"
	"strings"
	"syscall"
)

// unmountBelow takes away what tests have mounted below dir. What it cannot take
// away cannot be removed either, which then says so.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}
