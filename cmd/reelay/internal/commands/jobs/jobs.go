package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// Command returns `reelay jobs`.
func Command() *cobra.Command {
	cmd := listJobs(&cobra.Command{
		Use:   "jobs",
		Short: "List jobs, and change their tier or priority",
		Args:  terminal.NoSuchCommand,
	})
	cmd.AddCommand(ListCommand(), setTierCommand(), setPriorityCommand(), decideCommand())
	return cmd
}

func setTierCommand() *cobra.Command {
	call := &connect.Call{Target: connect.Target{Operator: true}}
	return call.Command(&cobra.Command{
		Use:     "set-tier TIER JOB…",
		Short:   "Move jobs to another tier's lane (for operators)",
		Long:    "Moves waiting jobs to the lane of another tier at once, and running jobs when they are queued again.",
		Example: "  reelay jobs set-tier enterprise job_01937d3e",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("give a tier, and the ids of jobs: reelay jobs set-tier %s JOB…", strings.ToLower(string(client.TierPro)))
			}
			_, err := input.ParseLane(args[0])
			return err
		},
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		tier, err := input.ParseLane(args[0])
		if err != nil {
			return nil, nil, err
		}
		return eachJob(ctx, c, args[1:], func(id string) (*client.Job, string, error) {
			job, err := c.SetJobTier(ctx, id, tier)
			if err != nil {
				return nil, "", err
			}
			return job, fmt.Sprintf("is now of the tier %s, in the lane %s", job.Tier, job.Lane), nil
		})
	})
}

func setPriorityCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set-priority PRIORITY JOB…",
		Short:   "Change the order of jobs among those of their account",
		Long:    "Changes the order of jobs among the account's jobs of their lane, from -100 to 100: higher ones start first.",
		Example: "  reelay jobs set-priority 10 job_01937d3e\n  reelay jobs set-priority -- -10 job_01937d3e",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("give a priority from -100 to 100, and the ids of jobs")
			}
			return ValidPriority(args[0])
		},
	}
	return new(connect.Call).Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		priority, err := strconv.Atoi(args[0])
		if err != nil {
			return nil, nil, err
		}
		return eachJob(ctx, c, args[1:], func(id string) (*client.Job, string, error) {
			job, err := c.SetJobPriority(ctx, id, priority)
			if err != nil {
				return nil, "", err
			}
			return job, fmt.Sprintf("has the priority %d", job.Priority), nil
		})
	})
}

func decideCommand() *cobra.Command {
	var again, giveUp bool
	cmd := &cobra.Command{
		Use:   "decide JOB…",
		Short: "Decide about jobs whose submit a hosted provider did not answer (for operators)",
		Long: "Ends the wait of jobs with SUBMIT_UNKNOWN: the provider did not answer their submit, and cannot say whether it began.\n" +
			"Look at the provider's own list of jobs first. With --pay-again the jobs are submitted again, which may be paid twice; with\n" +
			"--give-up they fail.",
		Example: "  reelay jobs decide job_01937d3e --give-up",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("give the ids of jobs: reelay jobs decide JOB… --pay-again")
			case again == giveUp:
				return errors.New("give either --pay-again or --give-up")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&again, "pay-again", false, "submit the jobs again, which may be paid twice")
	cmd.Flags().BoolVar(&giveUp, "give-up", false, "let the jobs fail")
	call := &connect.Call{Target: connect.Target{Operator: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		decision, says := client.SubmitDecisionGiveUp, "has failed"
		if again {
			decision, says = client.SubmitDecisionPayAgain, "is submitted again"
		}
		return eachJob(ctx, c, args, func(id string) (*client.Job, string, error) {
			job, err := c.DecideSubmit(ctx, id, decision)
			return job, says, err
		})
	})
}

// ValidPriority refuses a priority that is not a whole number from -100 to 100.
func ValidPriority(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < -100 || n > 100 {
		return fmt.Errorf("the priority is %q: it must be from -100 to 100", text)
	}
	return nil
}

// eachJob does something to each of the jobs, and stops at the first error. The answer is one
// job, or a list of more. do returns what became of a job.
func eachJob(
	ctx context.Context, c *client.Client, args []string, do func(id string) (*client.Job, string, error),
) (any, output.Printer, error) {
	ids, err := connect.FullIDs(ctx, c, "job", args)
	if err != nil {
		return nil, nil, err
	}
	var done []client.Job
	var lines []string
	for _, id := range ids {
		job, what, err := do(id)
		if err != nil {
			return nil, nil, DoneBefore(id, lines, len(ids), err)
		}
		done, lines = append(done, *job), append(lines, job.Id+" "+what)
	}
	text := output.Line("%s", strings.Join(lines, "\n"))
	if len(done) == 1 {
		return done[0], text, nil
	}
	return output.All(done), text, nil
}

// DoneBefore adds to the error about one of several jobs which one it is, and what was done
// before it.
func DoneBefore(id string, lines []string, all int, err error) error {
	if all == 1 {
		return err
	}
	before := ""
	if len(lines) > 0 {
		before = "\nDone before it:\n  " + strings.Join(lines, "\n  ")
	}
	return fmt.Errorf("%s: %w%s", id, connect.WithAdvice(err), before)
}

// jobArgs checks the arguments of the commands about jobs.
func jobArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("give the ids of jobs, such as job_01937d3e")
	}
	return nil
}

// JobArg checks the one argument of the commands about a job.
func JobArg(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give the id of one job, such as job_0195…; there are %d arguments", len(args))
	}
	return nil
}
