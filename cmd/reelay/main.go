// Command reelay is the whole of Reelay: the servers, the agent, and the commands for
// users and operators.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	var err error
	if len(args) == 0 || !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // cobra adds that later
		err = unknownCommand(root, args)
	}
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	return report(errs, err)
}

// errInterrupted is the error of a command that was interrupted and has nothing else to
// report.
var errInterrupted = &statusError{exitInterrupted, errors.New("interrupted before it finished")}

// processContext returns a context that ends when this process is asked to stop, or
// when a process in REELAY_FOLLOW ends. A second request ends the process at once.
func processContext() (context.Context, func(), error) {
	// A write to a closed pipe returns an error, see report.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	asked := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		asked = append(asked, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), asked...)
	context.AfterFunc(ctx, stop)

	const follow = "REELAY_FOLLOW"
	pids := os.Getenv(follow)
	os.Unsetenv(follow) // our children follow this process instead
	followed, err := localstack.Follow(ctx, pids)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("%s: %w", follow, err)
	}
	return followed, stop, nil
}

func rootCommand() *cobra.Command {
	root := family(&cobra.Command{
		Use:   "reelay",
		Short: "Turn prompts into videos on GPUs that may vanish",
		Long: "Reelay turns prompts into videos on GPUs that may vanish. If a worker goes away, its job resumes from its\n" +
			"newest checkpoint on another worker.\n\n" +
			"Commands find the API by --endpoint and --key, then by --context, by REELAY_ENDPOINT and REELAY_API_KEY, by the\n" +
			"context of `reelay login`, then by the credentials that a running `reelay up` wrote to --data.",
		Example: "  reelay demo\n" +
			"  reelay up\n" +
			"  reelay submit --prompt 'a lighthouse in a storm' --wait --output video.mp4",
		Version:       version.Current().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "fleet", Title: "The fleet:"},
		&cobra.Group{ID: "access", Title: "Access:"},
		&cobra.Group{ID: "run", Title: "Running Reelay:"})
	addGroup(root, "jobs", submitCommand(), draftCommand(), takesCommand(), continueCommand(), watchCommand(), getCommand(), explainCommand(), listCommand(), batchCommand(), downloadCommand(), logsCommand(), eventsCommand(), openCommand(),
		cancelCommand(), retryCommand(), deleteCommand(), jobsCommand(), bulkCommand(), schedulesCommand(), workflowsCommand(), storyboardCommand(), estimateCommand(), modelsCommand(), webhooksCommand())
	addGroup(root, "fleet", topCommand(), attentionCommand(), workersCommand(), poolsCommand(), queuesCommand(), haltCommand(), resumeCommand(), deadLettersCommand(), alertsCommand(), accountsCommand(), keysCommand(), membersCommand(), changesCommand(), auditCommand())
	addGroup(root, "run", demoCommand(), upCommand(), apiCommand(), controlCommand(), storeCommand(), migrateCommand(), doctorCommand(), simulateCommand())
	addGroup(root, "run", agentCommands()...)
	root.AddCommand(referenceCommand())
	addGroup(root, "access", loginCommand(), logoutCommand(), contextCommand(), whoamiCommand(), graphqlCommand(), versionCommand())
	root.PersistentFlags().Bool("no-color", false, "print no colours, as with the environment variable NO_COLOR")
	root.SetHelpCommandGroupID("run")
	root.SetCompletionCommandGroupID("run")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd, flagError(cmd, err)} })
	checkArgs(root)
	completeFlags(root)
	return root
}

func addGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
		root.AddCommand(cmd)
	}
}

// family makes a command that only has subcommands. Without one it shows its help.
func family(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = noSuchCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// noSuchCommand refuses the arguments of a command that only has subcommands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// A third of the letters may be wrong, and at most two.
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/3)
	if similar := slices.Compact(cmd.SuggestionsFor(args[0])); len(similar) > 0 {
		return fmt.Errorf("there is no command %q; did you mean %s?", args[0], strings.Join(similar, " or "))
	}
	return fmt.Errorf("there is no command %q", args[0])
}

// unknownCommand returns an error if the command line names a command that does not exist. With flags,
// cobra would say that the parent has no such flag, or show the parent's help.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasSubCommands() || cmd.Args == nil || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil
	}
	return cmd.Args(cmd, rest[:1])
}

// usageError is the error of an invalid command line.
type usageError struct {
	cmd   *cobra.Command // nil if the caller does not know it
	cause error
}

func (e *usageError) Error() string { return e.cause.Error() }
func (e *usageError) Unwrap() error { return e.cause }

// jobArg checks the one argument of the commands about a job.
func jobArg(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give the id of one job, such as job_0195…; there are %d arguments", len(args))
	}
	return nil
}

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
