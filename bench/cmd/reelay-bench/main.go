// Command reelay-bench measures how fast Reelay is on this machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/reelay/reelay/internal/localstack"
)

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT)
)

func main() {
	ctx, stop, err := processContext()
	if err != nil {
		os.Exit(report(os.Stderr, err))
	}
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// processContext returns a context that ends on a signal or when a process in REELAY_FOLLOW
// ends. A second signal ends the process immediately.
func processContext() (context.Context, func(), error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	const follow = "REELAY_FOLLOW"
	pids := os.Getenv(follow)
	os.Unsetenv(follow) // children follow this process
	followed, err := localstack.Follow(ctx, pids)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("%s: %w", follow, err)
	}
	return followed, stop, nil
}

// execute runs one command line until ctx ends and returns its exit status.
func execute(ctx context.Context, args []string, out, errs io.Writer) int {
	cmd := measureCommand()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	err := cmd.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil { // whatever the error says, the interruption came first
		fmt.Fprintln(errs, "reelay-bench: interrupted")
		return exitInterrupted
	}
	return report(errs, err)
}

// usageError is the error of an invalid command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// report prints an error and returns the exit status.
func report(errs io.Writer, err error) int {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	fmt.Fprintln(errs, "reelay-bench: "+err.Error())
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintln(errs, "See `reelay-bench --help`.")
		return exitUsage
	}
	return exitFailed
}
