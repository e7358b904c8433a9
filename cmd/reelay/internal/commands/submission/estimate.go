package submission

import (
	"fmt"
	"io"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// EstimateCommand returns `reelay estimate`.
func EstimateCommand() *cobra.Command {
	var o submitOptions
	var format output.Options
	cmd := &cobra.Command{
		Use:   "estimate --prompt TEXT",
		Short: "Estimate when a job would start, and how long it would run",
		Long: "Estimates the wait and the run time of a job, from the current queue and fleet. It takes the flags of\n" +
			"reelay submit, and submits nothing.",
		Example: "  reelay estimate --prompt 'a lighthouse in a storm' --duration 6 --tier pro",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Check(); err != nil {
				return terminal.UsageError(cmd, err)
			}
			in, inputs, err := o.input(cmd)
			if err != nil {
				return terminal.UsageError(cmd, err)
			}
			for _, file := range inputs {
				if file.path != "" {
					return terminal.UsageError(cmd,
						fmt.Errorf("%s is a file: an estimate uploads nothing; leave it out, or name an artifact or a URL", file.flag))
				}
			}
			c, err := o.target.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.paramTexts(cmd.Context(), c, &in)
			if _, err := o.attach(cmd.Context(), c, &in, inputs); err != nil {
				return o.target.Explain(err)
			}
			e, err := c.Estimate(cmd.Context(), in)
			if err != nil {
				return o.target.Explain(err)
			}
			return format.Print(format.Screen(cmd, cmd.OutOrStdout()), e, func(out io.Writer) error { return printEstimate(out, e) })
		},
	}
	o.target.AddFlags(cmd)
	o.addJobFlags(cmd)
	format.AddFlags(cmd)
	return cmd
}

func printEstimate(out io.Writer, e *client.Estimate) error {
	seconds := func(v *float64) string {
		if v == nil {
			return "unknown"
		}
		return text.Seconds(*v)
	}
	if e.ReusedFrom != nil {
		_, err := fmt.Fprintf(out, "%-12s%s: no worker renders it\n", "reuses", *e.ReusedFrom)
		return err
	}
	starts := seconds(e.WaitSeconds)
	if e.WaitSeconds == nil {
		starts = "unknown: no worker can run it now, or its queue is paused"
	}
	cost := "unknown: no pool or provider that can run it has a price (one that was just set counts within 10 s)"
	if e.CostUsd != nil {
		cost = "about " + text.USD(*e.CostUsd)
	}
	_, err := fmt.Fprintf(out, "%-12s%d\n%-12s%s\n%-12s%s\n%-12s%s\n%-12s%s\n", "position", e.Position, "starts in", starts, "at worst",
		seconds(e.WaitSecondsP90)+" (in 9 of 10 cases)", "runs for", seconds(e.RenderSeconds), "costs", cost)
	return err
}
