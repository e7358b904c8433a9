// Command reelay is all of Reelay: the servers, the agent, and what people use
// them with.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT)
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes one command line as this process and returns its exit status.
func run(args []string, out, errs io.Writer) int {
	ctx := context.Background()
	if cmd, _, err := rootCommand().Find(args); err != nil || cmd.Annotations[ownSignals] == "" {
		var stop func()
		if ctx, stop, err = processContext(); err != nil {
			return report(errs, err)
		}
		defer stop()
	}
	return execute(ctx, args, out, errs)
}

// execute executes one command line until ctx ends.
func execute(ctx context.Context, args []string, out, errs io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	return report(errs, err)
}

// errInterrupted is the end of a command that was told to stop before it was
// done, and that has nothing more to say of it.
var errInterrupted = &statusError{exitInterrupted, errors.New("interrupted before it was done")}

// processContext ends when this process is asked to, or when one that it
// follows is gone. A second request is not held up: it ends the process at once.
func processContext() (context.Context, func(), error) {
	// A write to a closed pipe is an error like any other, see report.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	asked := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		asked = append(asked, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), asked...)
	context.AfterFunc(ctx, stop)

	const follow = "REELAY_FOLLOW"
	pids := os.Getenv(follow)
	os.Unsetenv(follow) // not for our children: they follow us
	followed, err := localstack.Follow(ctx, pids)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("%s: %w", follow, err)
	}
	return followed, stop, nil
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "reelay",
		Short: "Films from prompts, on GPUs that may vanish",
		Long: "Reelay turns prompts into films on GPUs that may vanish: a job whose worker goes is resumed from its\n" +
			"newest checkpoint on another.\n\n" +
			"Commands that talk to a Reelay find it by --endpoint and --key, by REELAY_ENDPOINT and REELAY_API_KEY,\n" +
			"or by what a running `reelay up` left in --data, in this order.",
		Example: "  reelay demo\n" +
			"  reelay up\n" +
			"  reelay submit --prompt 'a lighthouse in a storm' --wait --output film.mp4",
		Version:       version.Current().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "fleet", Title: "The fleet:"},
		&cobra.Group{ID: "run", Title: "Running Reelay:"})
	addGroup(root, "jobs", submitCommand(), watchCommand(), getCommand(), listCommand(), downloadCommand(), cancelCommand(), retryCommand(), modelsCommand(), webhooksCommand())
	addGroup(root, "fleet", workersCommand(), queuesCommand(), accountsCommand(), keysCommand(), auditCommand())
	addGroup(root, "run", demoCommand(), upCommand(), apiCommand(), controlCommand(), storeCommand(), migrateCommand(), doctorCommand(), version.Command())
	addGroup(root, "run", agentCommands()...)
	root.SetHelpCommandGroupID("run")
	root.SetCompletionCommandGroupID("run")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd, err} })
	checkArgs(root)
	return root
}

func addGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
		root.AddCommand(cmd)
	}
}

// noSuchCommand is for the commands that only hold others.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if similar := nearest(cmd, args[0]); similar != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, similar)
	}
	return err
}

// nearest is the command below cmd that a mistyped name is closest to, or nothing if
// none is close: one letter of three may be wrong, and two at most.
func nearest(cmd *cobra.Command, typed string) (name string) {
	least := min(2, len(typed)/3) + 1
	for _, sub := range cmd.Commands() {
		if d := distance(strings.ToLower(typed), sub.Name()); d < least && sub.IsAvailableCommand() {
			name, least = sub.Name(), d
		}
	}
	return name
}

// distance is how many letters must be put in, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// usageError is a command line that cannot be understood.
type usageError struct {
	cmd   *cobra.Command
	cause error
}

func (e *usageError) Error() string { return e.cause.Error() }
func (e *usageError) Unwrap() error { return e.cause }

// checkArgs makes a usageError of what is wrong with the arguments of cmd and of
// the commands below it.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{cmd, err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// jobArg is the one argument of the commands about a job.
func jobArg(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give the id of one job, such as job_0195…; there are %d arguments", len(args))
	}
	return nil
}

// report says what went wrong and returns the exit status. Whoever stopped
// reading our output had enough of it: that is no failure.
func report(errs io.Writer, err error) int {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return 0
	}
	fmt.Fprintln(errs, "reelay: "+err.Error())
	if usage, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(errs, "Usage: %s\nSee `%s --help`.\n", usage.cmd.UseLine(), usage.cmd.CommandPath())
		return exitUsage
	}
	if told, ok := errors.AsType[*statusError](err); ok {
		return told.status
	}
	return exitFailed
}

// statusError is an error that has an exit status of its own.
type statusError struct {
	status int
	error
}

func (e *statusError) Unwrap() error { return e.error }
