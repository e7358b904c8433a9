package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

func workersDrainCommand() *cobra.Command {
	var deadline time.Duration
	cmd := &cobra.Command{
		Use:   "drain WORKER",
		Short: "Let a worker finish its job and leave",
		Long: "Drains a worker: it takes no new job, and leaves when its job has ended. At the deadline it saves a checkpoint\n" +
			"and hands the job over to another worker. A drain cannot be undone: start the agent again.\n" +
			"To keep jobs from a machine for a while, quarantine it.",
		Example: "  reelay workers drain wrk_01937d3e-… --deadline 20m",
		Args:    workerArg,
	}
	cmd.Flags().DurationVar(&deadline, "deadline", 10*time.Minute, "how long its job may still run, 0 to 24h")
	return workerCommand(cmd, func(ctx context.Context, c *client.Client, id string) (*client.Worker, string, error) {
		w, err := c.DrainWorker(ctx, id, deadline)
		if err != nil {
			return nil, "", err
		}
		return w, "drains" + busyWith(w), nil
	})
}

func workersPreemptCommand() *cobra.Command {
	var notice time.Duration
	cmd := &cobra.Command{
		Use:   "preempt WORKER",
		Short: "Preempt a worker as a cloud preempts a spot machine",
		Long: "Preempts a worker: it gets a notice, saves a checkpoint and hands over its job, and its machine ends after the\n" +
			"notice. Only spot machines of providers that can preempt are preempted: local, gce, and programs that know the verb.",
		Example: "  reelay workers preempt wrk_01937d3e-… --notice 30s",
		Args:    workerArg,
	}
	cmd.Flags().DurationVar(&notice, "notice", 30*time.Second, "time between the notice and the end of the machine, 0 to 2m")
	return workerCommand(cmd, func(ctx context.Context, c *client.Client, id string) (*client.Worker, string, error) {
		w, err := c.PreemptWorker(ctx, id, notice)
		if err != nil {
			return nil, "", err
		}
		return w, fmt.Sprintf("is preempted, and its machine ends in %s%s", text.Setting(notice), busyWith(w)), nil
	})
}

func workersQuarantineCommand() *cobra.Command {
	var lasting time.Duration
	var reason string
	cmd := &cobra.Command{
		Use:   "quarantine WORKER",
		Short: "Keep jobs from a worker's host for a while",
		Long: "Quarantines the worker's host. No worker on the machine gets a job, nor does one that registers there later.\n" +
			"A running job continues. `reelay workers release` ends the quarantine.",
		Example: "  reelay workers quarantine wrk_01937d3e-… --for 2h --reason 'its fans are loud'",
		Args:    workerArg,
	}
	cmd.Flags().DurationVar(&lasting, "for", 30*time.Minute, "how long, 1m to 720h, in whole minutes")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who see it (required)")
	return workerCommand(cmd, func(ctx context.Context, c *client.Client, id string) (*client.Worker, string, error) {
		if lasting%time.Minute != 0 {
			return nil, "", terminal.UsageError(cmd, fmt.Errorf("--for is %s: it must be in whole minutes", lasting))
		}
		if reason == "" {
			return nil, "", terminal.UsageError(cmd, errors.New("--reason is missing: say why the host gets no jobs"))
		}
		w, err := c.QuarantineWorker(ctx, id, lasting, reason)
		if err != nil {
			return nil, "", err
		}
		return w, "gets no jobs for " + text.Setting(lasting) + busyWith(w), nil
	})
}

func workersReleaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release WORKER",
		Short: "End the quarantine of a worker's host",
		Args:  workerArg,
	}
	return workerCommand(cmd, func(ctx context.Context, c *client.Client, id string) (*client.Worker, string, error) {
		w, err := c.ReleaseQuarantine(ctx, id)
		switch {
		case err != nil:
			return nil, "", err
		case w.Status == client.WorkerStatusDraining, w.Status == client.WorkerStatusLost:
			return w, "is not in quarantine, but " + string(w.Status) + ": it gets no jobs", nil
		}
		return w, "is not in quarantine: it gets jobs", nil
	})
}

func workersTerminateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "terminate WORKER",
		Short: "End a worker and its machine at once",
		Long: "Ends a worker without notice, and its machine if Reelay runs it. Its job is queued again, and resumes from its\n" +
			"newest checkpoint.",
		Args: workerArg,
	}
	return workerCommand(cmd, func(ctx context.Context, c *client.Client, id string) (*client.Worker, string, error) {
		w, err := c.TerminateWorker(ctx, id)
		return w, "is terminated", err
	})
}

// workerCommand completes a command that acts on one worker. act returns the worker, and what
// became of it.
func workerCommand(
	cmd *cobra.Command, act func(ctx context.Context, c *client.Client, id string) (*client.Worker, string, error),
) *cobra.Command {
	call := &connect.Call{Target: connect.Target{Operator: true}, Kind: "wrk"}
	if verb := cmd.Name(); verb == "terminate" || verb == "preempt" {
		call.Danger = func(ctx context.Context, c *client.Client, args []string) (string, error) {
			return endQuestion(ctx, c, verb, args[0])
		}
	}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		w, what, err := act(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		return w, output.Line("%s %s.", w.Id, what), nil
	})
}

func busyWith(w *client.Worker) string {
	if w.CurrentJob == nil {
		return ""
	}
	return "; it has the job " + w.CurrentJob.Id
}

// workerArg checks the one argument of the commands about a worker.
func workerArg(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give the id of one worker, as `reelay workers` shows it; there are %d arguments", len(args))
	}
	return nil
}

// endQuestion asks whether to end a worker, and says what it runs.
func endQuestion(ctx context.Context, c *client.Client, verb, id string) (string, error) {
	w, err := c.Worker(ctx, id)
	if err != nil {
		return "", err
	}
	runs := "It has no job."
	if w.CurrentJob != nil {
		runs = fmt.Sprintf("It runs %s, which another worker will resume.", w.CurrentJob.Id)
	}
	return fmt.Sprintf("%s %s (%s)? %s", strings.ToUpper(verb[:1])+verb[1:], w.Id, PlaceOf(w.ProviderInstanceId, w.Slot), runs), nil
}
