package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of each descendant whose own parent has ended,
// so that none is lost. It must be called before any child is started.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
}

// reapOrphans reaps each orphan that ends, until it is stopped. Only the parent can do so,
// and tests check that processes are gone. It leaves child to its own waiter.
func reapOrphans(child int) (stop func()) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				reap(child)
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(ended); close(done) }
}

func reap(but int) {
	for _, p := range below(os.Getpid()) {
		if p.parent == os.Getpid() && p.state == "Z" && p.pid != but {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) // another call may have reaped it
		}
	}
}

// endOrphans waits until this process has no descendants. After grace it kills the
// remaining ones and returns their names.
func endOrphans(grace time.Duration) (killed []string) {
	for deadline := time.Now().Add(grace); ; time.Sleep(100 * time.Millisecond) {
		reap(0)
		left := slices.DeleteFunc(below(os.Getpid()), func(p process) bool { return p.state == "Z" })
		if len(left) == 0 {
			return killed
		}
		if time.Now().Before(deadline) {
			continue
		}
		for _, p := range left {
			name := p.String() // a killed process has none
			if syscall.Kill(p.pid, syscall.SIGKILL) == nil {
				killed = append(killed, name)
			}
		}
	}
}

// process is a line of the kernel's list of processes.
type process struct {
	pid, parent int
	state       string // as in ps: Z is a zombie
}

// String returns its id and its command line.
func (p process) String() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	return strconv.Itoa(p.pid) + " " + strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
}

// below returns all descendants of a process.
func below(root int) []process {
	children := map[int][]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, can contain any character.
		pid, rest, _ := strings.Cut(string(text), " (")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:])
		p := process{state: fields[0]}
		p.pid, _ = strconv.Atoi(pid)
		p.parent, _ = strconv.Atoi(fields[1])
		children[p.parent] = append(children[p.parent], p)
	}
	found := children[root]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}
