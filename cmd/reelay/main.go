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
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/commands/access"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/completion"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/fleet"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/operations"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/submission"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/workflows"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/demo"
	"github.com/reelay/reelay/cmd/reelay/internal/providers"
	"github.com/reelay/reelay/cmd/reelay/internal/servers"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/cmd/reelay/internal/simulation"
	"github.com/reelay/reelay/cmd/reelay/internal/support"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/healthcheck"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/secretfile"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

func main() {
	// A process at rest would keep for good what only its start needed.
	time.AfterFunc(startTime, debug.FreeOSMemory)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// startTime is longer than the start of a server takes.
const startTime = 10 * time.Second

// run executes one command line as this process and returns its exit status.
func run(args []string, out, errs io.Writer) int {
	if err := secretfile.Load(); err != nil {
		return terminal.Report(errs, err)
	}
	ctx := context.Background()
	if cmd, _, err := rootCommand().Find(args); err != nil || cmd.Annotations[servers.OwnSignals] == "" {
		var stop func()
		if ctx, stop, err = processContext(); err != nil {
			return terminal.Report(errs, err)
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
		err = terminal.ErrInterrupted
	}
	return terminal.Report(errs, err)
}

// processContext returns a context that ends when this process is asked to stop, or
// when a process in REELAY_FOLLOW ends. A second request ends the process at once.
func processContext() (context.Context, func(), error) {
	// A write to a closed pipe returns an error, see [terminal.Report].
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

// extraCommands are those of builds with tags, see man.go.
var extraCommands []func() *cobra.Command

func rootCommand() *cobra.Command {
	root := terminal.Family(&cobra.Command{
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
	addGroup(root, "jobs", submission.SubmitCommand(), submission.DraftCommand(), submission.TakesCommand(), submission.ContinueCommand(),
		jobs.WatchCommand(), jobs.GetCommand(), jobs.ExplainCommand(), jobs.ListCommand(), submission.BatchCommand(), jobs.DownloadCommand(),
		jobs.LogsCommand(), jobs.EventsCommand(), connect.OpenCommand(),
		jobs.CancelCommand(), jobs.RetryCommand(), jobs.DeleteCommand(), jobs.Command(), operations.BulkCommand(), workflows.SchedulesCommand(),
		workflows.Command(), workflows.StoryboardCommand(), submission.EstimateCommand(), fleet.ModelsCommand(), operations.WebhooksCommand())
	addGroup(root, "fleet", operations.TopCommand(), operations.AttentionCommand(), fleet.WorkersCommand(), fleet.PoolsCommand(),
		fleet.MachinesCommand(), operations.CostsCommand(), operations.ReportsCommand(), operations.BudgetsCommand(), operations.PricesCommand(),
		fleet.QueuesCommand(),
		operations.HaltCommand(), operations.ResumeCommand(), operations.DeadLettersCommand(), operations.AlertsCommand(),
		access.AccountsCommand(), access.KeysCommand(servers.KeysBootstrapCommand()), access.MembersCommand(servers.MembersBootstrapCommand()),
		operations.ChangesCommand(), operations.AuditCommand())
	addGroup(root, "run", demo.Command(), servers.UpCommand(), servers.APICommand(), servers.ControlCommand(), servers.StoreCommand(),
		servers.MigrateCommand(), servers.SecretsCommand(), servers.BackupCommand(), servers.RestoreCommand(), servers.RegionCommand(), servers.DoctorCommand(),
		support.Command(support.Sources{Examine: servers.Examine, Settings: settings.Safe}),
		healthcheck.Command("http://127.0.0.1:8080/readyz"), providers.Command(), simulation.Command())
	addGroup(root, "run", servers.AgentCommands()...)
	root.AddCommand(referenceCommand())
	for _, command := range extraCommands {
		root.AddCommand(command())
	}
	addGroup(root, "access", connect.LoginCommand(), connect.LogoutCommand(), connect.ContextCommand(), connect.WhoamiCommand(),
		connect.GraphQLCommand(), connect.VersionCommand())
	root.PersistentFlags().Bool("no-color", false, "print no colours, as with the environment variable NO_COLOR")
	root.SetHelpCommandGroupID("run")
	root.SetCompletionCommandGroupID("run")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return terminal.UsageError(cmd, terminal.FlagError(cmd, err))
	})
	terminal.CheckArgs(root)
	completion.AddTo(root)
	return root
}

func addGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
		root.AddCommand(cmd)
	}
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
