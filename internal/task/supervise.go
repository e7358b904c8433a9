package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/reelay/reelay/internal/orphans"
)

// follow is the environment variable of programs that end when a process above them does.
const follow = "REELAY_FOLLOW"

// graceOthers is how long programs without REELAY_FOLLOW can take to end after SIGTERM. Tests
// change it.
var graceOthers = 10 * time.Second

const (
	// graceFollow is how long programs with REELAY_FOLLOW can take to end. `reelay up` lets
	// its workers save their jobs.
	graceFollow = time.Minute
	// repeatTime tells a second request from the same one that came in two ways: Ctrl-C in a
	// terminal reaches the go command, which passes it on, and this process.
	repeatTime = time.Second
	// lookTime is how often it looks what has ended.
	lookTime = 50 * time.Millisecond
)

// supervise runs a command until it exits, and returns its exit status. If the command is
// killed, or the run has to end, it sends the signal stop to the command and then ends
// everything that is left below this process.
func supervise(cmd *exec.Cmd, stop syscall.Signal) (int, error) {
	if err := orphans.Adopt(); err != nil {
		return 1, err
	}
	os.Unsetenv(follow) // the programs below follow this process
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr, stop)
	asked, parent := requests(), os.Getppid()
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	pid, ended := cmd.Process.Pid, make(chan struct{})
	defer orphans.Reap(pid)()
	go func() {
		// Its state says how it ended.
		_ = cmd.Wait()
		close(ended)
	}()

	signal, err := wait(ended, asked, parent)
	if signal == 0 {
		if code := cmd.ProcessState.ExitCode(); code >= 0 {
			return code, nil
		}
		signal = cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
		err = fmt.Errorf("%s was killed (%v)", cmd.Args[0], signal)
	}
	end := ending{child: pid, stop: stop, began: time.Now(), asked: map[int]bool{}}
	end.all(asked)
	return 128 + int(signal), err
}

// requests returns a channel with the signals that end the run.
func requests() <-chan os.Signal {
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(asked, syscall.SIGHUP)
	}
	return asked
}

// wait returns the signal that ends the run, or 0 if the child has ended. The end of the parent
// counts as SIGHUP.
func wait(ended <-chan struct{}, asked <-chan os.Signal, parent int) (syscall.Signal, error) {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return 0, nil
		case s := <-asked:
			return s.(syscall.Signal), nil
		case <-look.C:
			if os.Getppid() != parent {
				return syscall.SIGHUP, errors.New("the process that started it has ended")
			}
		}
	}
}

// ending ends all processes below this one.
type ending struct {
	child int            // the process that was started
	stop  syscall.Signal // what asks the child to end
	began time.Time
	known []int        // processes that were seen below this one, where it cannot adopt them
	asked map[int]bool // processes that have been asked to end
}

// all returns when no process is left. A repeated request kills them.
func (e *ending) all(requests <-chan os.Signal) {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	hurry := false
	for e.pass(hurry) {
		select {
		case <-requests:
			hurry = hurry || time.Since(e.began) > repeatTime
		case <-look.C:
		}
	}
}

// pass asks or kills each process that is left, and reports whether there was one.
func (e *ending) pass(hurry bool) (left bool) {
	orphans.ReapNow(e.child)
	orderly := map[int]bool{} // processes that end in their own order, with what is below them
	for _, p := range orphans.Below(append([]int{os.Getpid()}, e.known...)...) {
		if !orphans.Adopts && !slices.Contains(e.known, p.Pid) {
			e.known = append(e.known, p.Pid)
		}
		orderly[p.Pid] = orderly[p.Parent] || orphans.HasVariable(p.Pid, follow) ||
			p.Pid == e.child && e.stop != syscall.SIGKILL
		if p.Zombie() {
			continue
		}
		// Only root can end a process of another user, such as sudo.
		left = !errors.Is(e.end(p.Pid, orderly[p.Pid], hurry), syscall.EPERM) || left
	}
	return left
}

// end asks or kills a process if it is time. It returns an error if it is not allowed to.
func (e *ending) end(pid int, orderly, hurry bool) error {
	grace := graceOthers
	if orderly {
		grace = graceFollow
	}
	signal := syscall.Signal(0) // only asks whether it is allowed
	switch {
	case hurry || time.Since(e.began) > grace:
		signal = syscall.SIGKILL
	case e.asked[pid]:
	case pid == e.child:
		signal = e.stop
	case !orderly:
		signal = syscall.SIGTERM
	}
	e.asked[pid] = e.asked[pid] || signal != 0
	return syscall.Kill(pid, signal)
}
