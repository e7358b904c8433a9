package main

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/reelay/reelay/internal/orphans"
)

// endOrphans waits until this process has no descendants. After grace it kills the
// remaining ones and returns their names.
func endOrphans(grace time.Duration) (killed []string) {
	for deadline := time.Now().Add(grace); ; time.Sleep(100 * time.Millisecond) {
		orphans.ReapNow(0)
		left := slices.DeleteFunc(orphans.Below(os.Getpid()), orphans.Process.Zombie)
		if len(left) == 0 {
			return killed
		}
		if time.Now().Before(deadline) {
			continue
		}
		for _, p := range left {
			name := p.String() // a killed process has none
			if syscall.Kill(p.Pid, syscall.SIGKILL) == nil {
				killed = append(killed, name)
			}
		}
	}
}
