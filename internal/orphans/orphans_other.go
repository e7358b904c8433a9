//go:build unix && !linux

package orphans

import (
	"os/exec"
	"strconv"
	"strings"
)

// Adopts is true if a process can adopt others.
const Adopts = false

// Adopt does nothing: this kernel gives orphans to the first process.
func Adopt() error { return nil }

// Reap does nothing: there is nothing to reap without adoption.
func Reap(int) (stop func()) { return func() {} }

// ReapNow does nothing, like [Reap].
func ReapNow(int) {}

// HasVariable reports whether a process was started with an environment variable. It is false
// where ps does not show the environment.
func HasVariable(pid int, name string) bool {
	line, _ := exec.Command("ps", "-E", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return strings.Contains(string(line), " "+name+"=")
}

func commandLine(pid int) string {
	line, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return strings.TrimSpace(string(line))
}

func list() (all []Process) {
	lines, _ := exec.Command("ps", "-ax", "-o", "pid=,ppid=,state=").Output()
	for line := range strings.Lines(string(lines)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		p := Process{State: fields[2]}
		p.Pid, _ = strconv.Atoi(fields[0])
		p.Parent, _ = strconv.Atoi(fields[1])
		all = append(all, p)
	}
	return all
}
