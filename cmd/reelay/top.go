package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// overview is what `reelay top` shows.
type overview struct {
	Queues  []client.Queue  `json:"queues"`
	Workers []client.Worker `json:"workers"`
}

func topCommand() *cobra.Command {
	var o output.Options
	var once bool
	t := target{operator: true}
	watch := watchFlag{every: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show queues and workers, live (for operators)",
		Long: "Shows how many jobs wait and run, and what the workers do, every 2 s. Ctrl-C ends it. With --once, or where the\n" +
			"output is not a terminal, it shows them once.",
		Example: "  reelay top\n  reelay top --once --jq '.queues | map(.depth) | add'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return &usageError{cmd, err}
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			show := func(ctx context.Context, s *output.Screen) error {
				now, err := readOverview(ctx, c)
				if err != nil {
					return t.explain(err)
				}
				return o.Print(s, now, func(io.Writer) error { return now.print(s) })
			}
			if screen := o.Screen(cmd, cmd.OutOrStdout()); once || screen.Width == 0 {
				return show(cmd.Context(), screen)
			}
			return watch.run(cmd, &o, show)
		},
	}
	t.addFlags(cmd)
	o.AddFlags(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "show them once, and exit")
	return cmd
}

// liveWorkers are the states of workers that have not ended.
func liveWorkers() []client.WorkerStatus {
	return slices.DeleteFunc(slices.Clone(client.AllWorkerStatus), func(s client.WorkerStatus) bool { return s == client.WorkerStatusTerminated })
}

func readOverview(ctx context.Context, c *client.Client) (*overview, error) {
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	now := &overview{Queues: queues, Workers: []client.Worker{}}
	for after := ""; len(now.Workers) < 1000; {
		page, err := c.Workers(ctx, client.WorkerFilter{Status: liveWorkers()}, 200, after)
		if err != nil {
			return nil, err
		}
		for _, edge := range page.Edges {
			now.Workers = append(now.Workers, edge.Node)
		}
		if !page.PageInfo.HasNextPage || page.PageInfo.EndCursor == nil {
			break
		}
		after = *page.PageInfo.EndCursor
	}
	return now, nil
}

func (o *overview) print(s *output.Screen) error {
	waiting, running := 0, 0
	for _, q := range o.Queues {
		waiting, running = waiting+q.Depth, running+q.Running
	}
	if _, err := fmt.Fprintf(s, "%s waiting, %d running. %s.\n\n", text.Count(waiting, "job"), running, o.fleet()); err != nil {
		return err
	}
	if len(o.Queues) > 0 {
		if err := queueTable.Write(s, o.Queues); err != nil {
			return err
		}
		fmt.Fprintln(s)
	}
	if len(o.Workers) == 0 {
		return nil
	}
	busy := slices.Clone(o.Workers)
	slices.SortStableFunc(busy, func(a, b client.Worker) int { return cmp.Compare(activity(a), activity(b)) })
	return workerTable.Write(s, busy)
}

// activity orders workers: those that run a job come first.
func activity(w client.Worker) int {
	return slices.Index([]client.WorkerStatus{client.WorkerStatusBusy, client.WorkerStatusDraining, client.WorkerStatusLost, client.WorkerStatusBooting, client.WorkerStatusIdle}, w.Status)
}

// fleet says how many workers are in which state.
func (o *overview) fleet() string {
	if len(o.Workers) == 0 {
		return "No workers"
	}
	counts := map[client.WorkerStatus]int{}
	for _, w := range o.Workers {
		counts[w.Status]++
	}
	var parts []string
	for _, status := range client.AllWorkerStatus {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(status))))
		}
	}
	return text.Count(len(o.Workers), "worker") + ": " + strings.Join(parts, ", ")
}
