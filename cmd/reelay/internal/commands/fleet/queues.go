package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// QueuesCommand returns `reelay queues`.
func QueuesCommand() *cobra.Command {
	cmd := listQueues(&cobra.Command{
		Use:        "queues",
		SuggestFor: []string{"lanes", "pause", "resume"},
		Short:      "Show, pause and resume the queues (for operators)",
		Long: "Shows how many jobs wait and run in each lane, by model, and which queues are paused. A paused lane without\n" +
			"jobs is shown with the model \"all\".",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listQueues(&cobra.Command{Use: "list", Short: "Show the queues", Args: cobra.NoArgs}),
		queuesPauseCommand(), queuesResumeCommand())
	return cmd
}

func listQueues(cmd *cobra.Command) *cobra.Command {
	list := &connect.Lister[client.Queue]{
		Target: connect.Target{Operator: true}, Table: QueueTable, Whole: true,
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.Queue], error) {
			return output.Complete(c.Queues(ctx))
		},
	}
	return list.Command(cmd)
}

// QueueTable shows queues.
var QueueTable = output.Table[client.Queue]{
	Columns: []output.Column[client.Queue]{
		{Title: "LANE", Value: func(q client.Queue) any { return q.Tier }},
		{Title: "MODEL", Value: func(q client.Queue) any { return lo.FromPtrOr(q.Model, "all") }},
		{Title: "WAITING", Value: func(q client.Queue) any { return q.Depth }},
		{Title: "PROMOTED", Wide: true, Value: func(q client.Queue) any { return q.Promoted }},
		{Title: "RUNNING", Value: func(q client.Queue) any { return q.Running }},
		{Title: "OLDEST WAITS", Value: func(q client.Queue) any {
			if q.OldestWaitSeconds == nil {
				return nil
			}
			return text.Seconds(*q.OldestWaitSeconds)
		}},
		{Title: "EMPTY IN", Wide: true, Value: emptyIn},
		{Title: "WORKERS", Wide: true, Value: func(q client.Queue) any { return q.DrainCause }},
		{Title: "FOR A PROVIDER", Wide: true, Value: func(q client.Queue) any {
			if q.ProviderWait == nil {
				return nil
			}
			return q.ProviderWait.Jobs
		}},
		{Title: "STATE", Kind: output.State, Value: func(q client.Queue) any { return queueState(q) }},
	},
	None: "No queued or running jobs, and no paused queue.",
}

// emptyIn says in how long a queue is empty, as the console does: not until it is resumed if all of its
// jobs are paused, and never if nothing can run them.
func emptyIn(q client.Queue) any {
	if q.EstimatedDrainSeconds != nil {
		return text.Seconds(*q.EstimatedDrainSeconds)
	}
	kept, stuck, awaited := 0, 0, 0
	for _, left := range q.DrainLeavesOut {
		switch left.Reason {
		case client.DrainObstaclePaused, client.DrainObstacleHalted:
			kept++
		case client.DrainObstacleNoCapacity:
			stuck++
		default:
			awaited++
		}
	}
	switch {
	case awaited == 0 && stuck > 0:
		return "never"
	case awaited == 0 && kept > 0:
		return "not until resumed"
	}
	return nil
}

// queueState says whether a queue is paused, by whom, since when and why, or why its jobs do not
// start, or how many wait for a hosted provider and why.
func queueState(q client.Queue) string {
	if q.Pause == nil {
		if q.BlockedReason != nil {
			return *q.BlockedReason
		}
		if wait := q.ProviderWait; wait != nil {
			return fmt.Sprintf("%d wait: %s", wait.Jobs, strings.TrimSuffix(wait.Message, "."))
		}
		return "active"
	}
	state := fmt.Sprintf("paused by %s %s", q.Pause.By, output.Since(&q.Pause.At))
	if q.Pause.Model == nil && q.Model != nil {
		state = "lane " + state
	}
	if q.Pause.Reason != nil {
		state += ": " + *q.Pause.Reason
	}
	return state
}

func queuesPauseCommand() *cobra.Command {
	var model, reason string
	pause := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := pause.Command(&cobra.Command{
		Use:   "pause LANE",
		Short: "Stop leasing the jobs of a lane",
		Long: "Stops leasing the jobs of a lane, or of one model in it, to workers. Running jobs continue; new jobs are\n" +
			"accepted and wait.",
		Example: "  reelay queues pause pro --reason 'storage is full'\n  reelay queues pause batch --model testcard",
		Args:    laneArg,
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		lane, err := input.ParseLane(args[0])
		if err != nil {
			return nil, nil, err
		}
		q, err := c.PauseQueue(ctx, lane, model, reason)
		if err != nil {
			return nil, nil, err
		}
		return q, output.Line("Paused %s: %d queued, %d running. Running jobs continue.", queueName(lane, model), q.Depth, q.Running), nil
	})
	cmd.Flags().StringVar(&model, "model", "", "only the jobs of this model")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown to other operators")
	return cmd
}

func queuesResumeCommand() *cobra.Command {
	var model string
	resume := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := resume.Command(&cobra.Command{
		Use:     "resume LANE",
		Short:   "Resume leasing the jobs of a paused lane",
		Example: "  reelay queues resume pro",
		Args:    laneArg,
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		lane, err := input.ParseLane(args[0])
		if err != nil {
			return nil, nil, err
		}
		q, err := c.ResumeQueue(ctx, lane, model)
		if err != nil {
			return nil, nil, err
		}
		return q, output.Line("Resumed %s: %d queued.", queueName(lane, model), q.Depth), nil
	})
	cmd.Flags().StringVar(&model, "model", "", "only the jobs of this model")
	return cmd
}

// laneArg checks the one argument of the commands about a lane.
func laneArg(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give one lane: %s", strings.ToLower(input.OneOf(client.AllTier)))
	}
	_, err := input.ParseLane(args[0])
	return err
}

func queueName(lane client.Tier, model string) string {
	name := "the " + strings.ToLower(string(lane)) + " lane"
	if model == "" {
		return name
	}
	return model + " in " + name
}
