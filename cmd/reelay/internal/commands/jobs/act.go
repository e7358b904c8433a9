package jobs

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// CancelCommand returns `reelay cancel`.
func CancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:        "cancel JOB…",
		SuggestFor: []string{"rm", "kill", "stop"},
		Short:      "Cancel jobs",
		Long: "Cancels jobs. A waiting job is cancelled at once. If a job is running, its worker is asked to stop, and the job\n" +
			"is cancelled when the worker has stopped. `reelay bulk start cancel` cancels all jobs that match a filter.",
		Example: "  reelay cancel job_01937d3e --reason 'wrong prompt'",
		Args:    jobArgs,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the job")
	return new(connect.Call).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return eachJob(ctx, c, args, func(id string) (*client.Job, string, error) {
			job, err := c.CancelJobBecause(ctx, id, reason)
			if err != nil {
				return nil, "", err
			}
			if !job.Status.Terminal() {
				return job, "will be cancelled as soon as its worker has stopped", nil
			}
			return job, "is cancelled", nil
		})
	})
}

// RetryCommand returns `reelay retry`.
func RetryCommand() *cobra.Command {
	var fromScratch bool
	cmd := &cobra.Command{
		Use:   "retry JOB…",
		Short: "Retry failed or cancelled jobs",
		Long: "Retries jobs that failed or were cancelled, from their newest checkpoint or from scratch. The attempts of a job\n" +
			"keep counting; its count of failures starts again at zero.",
		Args: jobArgs,
	}
	cmd.Flags().BoolVar(&fromScratch, "from-scratch", false, "do not resume from a checkpoint")
	return new(connect.Call).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return eachJob(ctx, c, args, func(id string) (*client.Job, string, error) {
			job, err := c.RetryJob(ctx, id, fromScratch)
			return job, "runs again; follow it with: reelay watch " + id, err
		})
	})
}

// DeleteCommand returns `reelay delete`.
func DeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete JOB…",
		Short: "Delete the prompts and files of jobs that have ended",
		Long: "Permanently deletes the prompts and artifacts of jobs. The jobs stay in lists, marked as deleted. A job that has\n" +
			"not ended must be cancelled first. `reelay bulk start delete` deletes all jobs that match a filter.",
		Example: "  reelay delete job_01937d3e job_01937d3f",
		Args:    jobArgs,
	}
	call := &connect.Call{Danger: func(_ context.Context, _ *client.Client, args []string) (string, error) {
		return fmt.Sprintf("Delete the prompts and files of %s? They cannot be restored.", text.Count(len(args), "job")), nil
	}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return eachJob(ctx, c, args, func(id string) (*client.Job, string, error) {
			job, err := c.DeleteJob(ctx, id)
			return job, "is deleted", err
		})
	})
}
