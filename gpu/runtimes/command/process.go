package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

const (
	// stopGrace is how long a program may take to end after SIGTERM. The agent kills a runtime
	// that takes 5 seconds.
	stopGrace = 2 * time.Second
	// drainLimit is how long the output of an ended program may stay open, in a process that
	// left the program's group.
	drainLimit = time.Second
	// aliveEvery is how often a program without reports is reported as running. The agent
	// counts 5 minutes without progress as a hang.
	aliveEvery = 30 * time.Second
)

// do runs the program to its end. Meanwhile it reports progress, and answers requests for a
// checkpoint: a program has none.
func (r *run) do(ctx context.Context) error {
	r.reports = newReports(r.job, r.settings)
	ended, err := r.start()
	if err != nil {
		return err
	}
	began := time.Now()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	r.reports.begin("running " + r.name)
	for {
		select {
		case <-ctx.Done():
			r.stop(ended)
			return context.Cause(ctx)
		case <-r.job.CheckpointAsked:
			r.job.Checkpoint(runtime.Checkpoint{Percent: r.reports.percent()})
		case <-alive.C:
			if r.settings.Progress == nil {
				r.reports.begin(fmt.Sprintf("running %s for %s", r.name, time.Since(began).Round(time.Second)))
			}
		case err := <-ended:
			return r.judge(err)
		}
	}
}

// start starts the program in a process group of its own and returns a channel that receives its
// end, after all of its output was read.
func (r *run) start() (<-chan error, error) {
	r.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(r.command.SysProcAttr)
	var readers sync.WaitGroup
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, stderrEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdout.Close(), stdoutEnd.Close())
	}
	r.command.Stdout, r.command.Stderr = stdoutEnd, stderrEnd
	readers.Go(func() { r.reports.read(stdout, true) })
	readers.Go(func() { r.reports.read(stderr, false) })
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel ends the program with the thread that started it.
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		err := r.command.Start()
		stdoutEnd.Close()
		stderrEnd.Close()
		started <- err
		if err == nil {
			err = r.command.Wait()
			r.signal(syscall.SIGKILL) // what the program left behind
		}
		_ = stdout.SetReadDeadline(time.Now().Add(drainLimit))
		_ = stderr.SetReadDeadline(time.Now().Add(drainLimit))
		readers.Wait()
		stdout.Close()
		stderr.Close()
		ended <- err
	}()
	if err := <-started; err != nil {
		<-ended
		return nil, r.missing(err)
	}
	return ended, nil
}

// signal signals the program and every process that it started in its group.
func (r *run) signal(s syscall.Signal) { _ = syscall.Kill(-r.command.Process.Pid, s) }

// stop ends the program, first with SIGTERM.
func (r *run) stop(ended <-chan error) {
	r.signal(syscall.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-ended:
		return
	case <-timer.C:
	}
	r.signal(syscall.SIGKILL)
	<-ended
}

// judge turns the end of the program into success or a failure.
func (r *run) judge(err error) error {
	status := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
		if waited, ok := exit.Sys().(syscall.WaitStatus); ok && waited.Signaled() {
			return r.failure(status, fmt.Sprintf("was ended by the signal %s", waited.Signal()))
		}
	} else if err != nil {
		return err
	}
	allowed := r.settings.SuccessExitCodes
	if allowed == nil {
		allowed = []int{0}
	}
	if slices.Contains(allowed, status) {
		return nil
	}
	return r.failure(status, fmt.Sprintf("ended with the status %d", status))
}
