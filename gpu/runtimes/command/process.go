package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/program"
)

const (
	// stopGrace is how long a program may take to end after SIGTERM. The agent kills a runtime
	// that takes 5 seconds.
	stopGrace = 2 * time.Second
	// aliveEvery is how often a program without reports is reported as running. The agent
	// counts 5 minutes without progress as a hang.
	aliveEvery = 30 * time.Second
)

// do runs the program to its end. Meanwhile it reports progress, and answers requests for a
// checkpoint: a program has none.
func (r *run) do(ctx context.Context) error {
	r.reports = newReports(r.job, r.settings)
	process, err := program.Start(r.command, func(out io.Reader) { r.reports.read(out, true) },
		func(out io.Reader) { r.reports.read(out, false) })
	if err != nil {
		return r.missing(err)
	}
	began := time.Now()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	r.reports.begin("running " + r.name)
	for {
		select {
		case <-ctx.Done():
			process.Stop(stopGrace)
			return context.Cause(ctx)
		case <-r.job.CheckpointAsked:
			r.job.Checkpoint(runtime.Checkpoint{Percent: r.reports.percent()})
		case <-alive.C:
			if r.settings.Progress == nil {
				r.reports.begin(fmt.Sprintf("running %s for %s", r.name, time.Since(began).Round(time.Second)))
			}
		case err := <-process.Ended:
			return r.judge(err)
		}
	}
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
