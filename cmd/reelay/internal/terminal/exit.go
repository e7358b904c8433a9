package terminal

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Exit statuses.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 128 + int(syscall.SIGINT)
)

// ErrInterrupted is the error of a command that was interrupted and has nothing else to
// report.
var ErrInterrupted = StatusError(ExitInterrupted, errors.New("interrupted before it finished"))

// Report prints the error and returns the exit status. A closed output is not a failure: its
// reader has seen enough.
func Report(errs io.Writer, err error) int {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	fmt.Fprintln(errs, "reelay: "+err.Error())
	if usage, ok := errors.AsType[*usageError](err); ok {
		if usage.cmd != nil {
			fmt.Fprintf(errs, "Usage: %s\nSee `%s --help`.\n", usage.cmd.UseLine(), usage.cmd.CommandPath())
		}
		return ExitUsage
	}
	if exit, ok := errors.AsType[*statusError](err); ok {
		return exit.status
	}
	return ExitFailed
}

// statusError is an error with its own exit status.
type statusError struct {
	status int
	error
}

func (e *statusError) Unwrap() error { return e.error }

// StatusError gives an error its own exit status.
func StatusError(status int, err error) error { return &statusError{status, err} }
