package main

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT)
)

// errInterrupted is the error of a command that was interrupted and has nothing else to
// report.
var errInterrupted = &statusError{exitInterrupted, errors.New("interrupted before it finished")}

// report prints the error and returns the exit status. A reader that closed our output
// has seen enough: that is not a failure.
func report(errs io.Writer, err error) int {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	fmt.Fprintln(errs, "reelay: "+err.Error())
	if usage, ok := errors.AsType[*usageError](err); ok {
		if usage.cmd != nil {
			fmt.Fprintf(errs, "Usage: %s\nSee `%s --help`.\n", usage.cmd.UseLine(), usage.cmd.CommandPath())
		}
		return exitUsage
	}
	if told, ok := errors.AsType[*statusError](err); ok {
		return told.status
	}
	return exitFailed
}

// statusError is an error with its own exit status.
type statusError struct {
	status int
	error
}

func (e *statusError) Unwrap() error { return e.error }
