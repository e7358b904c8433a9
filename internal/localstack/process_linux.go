package localstack

import (
	"os"
	"path/filepath"
	"strconv"
)

// commandLine is the program and arguments of a process; empty if it is gone.
func commandLine(pid int) string {
	line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return string(line)
}
