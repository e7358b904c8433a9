package operations

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/fleet"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// overview is what `reelay top` shows.
type overview struct {
	Overview  *client.Overview        `json:"overview"`
	Attention []client.AttentionCause `json:"attention"`
	Queues    []client.Queue          `json:"queues"`
	Workers   []client.Worker         `json:"workers"`
}

// TopCommand returns `reelay top`.
func TopCommand() *cobra.Command {
	var o output.Options
	var once bool
	t := connect.Target{Operator: true}
	watch := connect.WatchFlag{Every: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show queues and workers, live (for operators)",
		Long: "Shows how many jobs wait and run, what needs attention (as `reelay attention`), and what the workers do, every 2 s.\n" +
			"Ctrl-C ends it. With --once, or where the output is not a terminal, it shows them once.",
		Example: "  reelay top\n  reelay top --once --jq '.queues | map(.depth) | add'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return terminal.UsageError(cmd, err)
			}
			c, err := t.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			show := func(ctx context.Context, s *output.Screen) error {
				now, err := readOverview(ctx, c)
				if err != nil {
					return t.Explain(err)
				}
				return o.Print(s, now, func(io.Writer) error { return now.print(s) })
			}
			if screen := o.Screen(cmd, cmd.OutOrStdout()); once || screen.Width == 0 {
				return show(cmd.Context(), screen)
			}
			return watch.Run(cmd, &o, show)
		},
	}
	t.AddFlags(cmd)
	o.AddFlags(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "show them once, and exit")
	return cmd
}

func readOverview(ctx context.Context, c *client.Client) (*overview, error) {
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	state, err := c.Overview(ctx)
	if err != nil {
		return nil, err
	}
	causes, err := c.Attention(ctx)
	if err != nil {
		return nil, err
	}
	now := &overview{Overview: state, Attention: causes, Queues: queues, Workers: []client.Worker{}}
	for after := ""; len(now.Workers) < 1000; {
		page, err := c.Workers(ctx, client.WorkerFilter{Status: fleet.LiveWorkers()}, 200, after)
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

// goodput is the useful part of what the machines of the last hour were paid for, or nil.
func goodput(v *client.Overview) *float64 {
	useful, all := 0.0, 0.0
	for _, time := range v.Paid {
		all += time.Seconds
		if time.Class == client.PaidClassUseful {
			useful = max(time.Seconds, 0)
		}
	}
	if all <= 0 {
		return nil
	}
	return new(useful / all)
}

func (o *overview) print(s *output.Screen) error {
	v := o.Overview
	for _, line := range []struct {
		name  string
		parts []string
	}{
		{"jobs", []string{queuedFigure(v), fmt.Sprintf("%d running", v.Running), fmt.Sprintf("%d scheduled", v.Scheduled),
			fmt.Sprintf("%d blocked", v.Blocked),
			drainFigure(v)}},
		{"rate", []string{known(v.SubmittedPerMinute, output.Decimal) + "/min submitted",
			known(v.CompletedPerMinute, output.Decimal) + "/min completed",
			known(v.FailureRate, percent) + " failed", text.Count(v.DeadLetters, "dead letter")}},
		{"waits", []string{"p50 " + known(v.WaitSecondsP50, text.Seconds), "p95 " + known(v.WaitSecondsP95, text.Seconds),
			"run p50 " + known(v.RenderSecondsP50, text.Seconds),
			"run p95 " + known(v.RenderSecondsP95, text.Seconds)}},
		{"fleet", []string{o.fleet(), "GPUs " + known(v.GpuUtilization, percent), preemptionFigure(v),
			"recovery p95 " + known(v.RecoverySecondsP95, text.Seconds)}},
		{"cost", []string{known(v.CostUsdPerHour, dollars) + " per hour", known(v.WastedUsdPerHour, dollars) + " of it wasted",
			known(v.CostUsdPerVideo, dollars) + " per video", known(goodput(v), percent) + " of the paid time useful"}},
	} {
		if _, err := io.WriteString(s, figures(line.name, line.parts, s.Width)); err != nil {
			return err
		}
	}
	for _, c := range o.Attention {
		line := causeLine(c)
		if s.Width > 0 {
			line = output.Clip(line, s.Width)
		}
		if c.Urgent {
			line = s.Paint(output.Yellow, line)
		}
		fmt.Fprintln(s, line)
	}
	fmt.Fprintln(s)
	if len(o.Queues) > 0 {
		if err := fleet.QueueTable.Write(s, o.Queues); err != nil {
			return err
		}
		fmt.Fprintln(s)
	}
	if len(o.Workers) == 0 {
		return nil
	}
	busy := slices.Clone(o.Workers)
	slices.SortStableFunc(busy, func(a, b client.Worker) int { return cmp.Compare(activity(a), activity(b)) })
	return fleet.WorkerTable.Write(s, busy)
}

func queuedFigure(v *client.Overview) string {
	if v.Promoted > 0 {
		return fmt.Sprintf("%d queued (%d promoted)", v.Queued, v.Promoted)
	}
	return fmt.Sprintf("%d queued", v.Queued)
}

// preemptionFigure says how often attempts lost their worker, and how often to an operator.
func preemptionFigure(v *client.Overview) string {
	figure := known(v.PreemptionsPerHour, output.Decimal) + " preemptions/h"
	if n := v.OperatorPreemptionsPerHour; n != nil && *n > 0 {
		figure += " (and " + output.Decimal(*n) + " by operators)"
	}
	return figure
}

// drainFigure says in how long the queues are empty, and which jobs that leaves out.
func drainFigure(v *client.Overview) string {
	var left []string
	for _, l := range v.DrainLeavesOut {
		left = append(left, fmt.Sprintf("%s: %s", text.Count(l.Jobs, "job"), l.Message))
	}
	out := strings.Join(left, "; ")
	switch {
	case v.EstimatedDrainSeconds == nil && out != "":
		return "no queued job starts (" + out + ")"
	case out != "":
		return "queues empty in " + text.Seconds(*v.EstimatedDrainSeconds) + " (without " + out + ")"
	}
	return "queues empty in " + known(v.EstimatedDrainSeconds, text.Seconds)
}

// figures lists figures after a name, on as many lines as the width of a terminal needs.
func figures(name string, parts []string, width int) string {
	const indent = 7
	text, at := fmt.Sprintf("%-*s", indent, name), indent
	for i, part := range parts {
		const separator = " · "
		switch {
		case i == 0:
		case width > 0 && at+output.Width(separator+part) > width:
			text, at = text+"\n"+strings.Repeat(" ", indent), indent
		default:
			text, at = text+separator, at+output.Width(separator)
		}
		text, at = text+part, at+output.Width(part)
	}
	return text + "\n"
}

// known formats a figure, or says that it is not known.
func known(v *float64, format func(float64) string) string {
	if v == nil {
		return "n/a"
	}
	return format(*v)
}

func dollars(v float64) string { return fmt.Sprintf("$%.2f", v) }
func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// activity orders workers: those that run a job come first.
func activity(w client.Worker) int {
	return slices.Index([]client.WorkerStatus{client.WorkerStatusBusy, client.WorkerStatusDraining, client.WorkerStatusLost,
		client.WorkerStatusBooting, client.WorkerStatusIdle}, w.Status)
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
