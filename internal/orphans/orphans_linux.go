package orphans

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Adopts is true if a process can adopt others.
const Adopts = true

// Adopt makes this process the parent of each descendant whose own parent has ended, so that
// none is lost. It must be called before any child is started.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
}

// Reap reaps each adopted process that ends, until it is stopped. Only the parent can do so,
// and other processes wait until they are gone. It leaves child to its own waiter.
func Reap(child int) (stop func()) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				ReapNow(child)
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(ended); close(done) }
}

// ReapNow reaps each child that has ended, except one.
func ReapNow(but int) {
	for _, p := range Below(os.Getpid()) {
		if p.Parent == os.Getpid() && p.Zombie() && p.Pid != but {
			_, _ = syscall.Wait4(p.Pid, nil, syscall.WNOHANG, nil) // another call may have reaped it
		}
	}
}

// HasVariable reports whether a process was started with an environment variable. It is false
// for a process of another user.
func HasVariable(pid int, name string) bool {
	environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return strings.Contains("\x00"+string(environment), "\x00"+name+"=")
}

func commandLine(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
}

func list() (all []Process) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, can contain any character.
		pid, rest, _ := strings.Cut(string(text), " (")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:])
		p := Process{State: fields[0]}
		p.Pid, _ = strconv.Atoi(pid)
		p.Parent, _ = strconv.Atoi(fields[1])
		all = append(all, p)
	}
	return all
}
