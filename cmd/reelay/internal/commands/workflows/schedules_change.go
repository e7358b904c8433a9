package workflows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/submission"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// scheduleFile is the file of `reelay schedules apply`.
type scheduleFile struct {
	Schedules []scheduleEntry `yaml:"schedules"`
}

// scheduleEntry is one schedule of a file.
type scheduleEntry struct {
	Name                 string                                 `yaml:"name"`
	Cron                 string                                 `yaml:"cron"`
	EverySeconds         int                                    `yaml:"everySeconds"`
	Timezone             string                                 `yaml:"timezone"`
	DSTGap               client.DstGap                          `yaml:"dstGap"`
	DSTOverlap           client.DstOverlap                      `yaml:"dstOverlap"`
	JitterSeconds        int                                    `yaml:"jitterSeconds"`
	CatchUp              client.CatchUp                         `yaml:"catchUp"`
	CatchUpWindowSeconds *int                                   `yaml:"catchUpWindowSeconds"`
	Overlap              client.Overlap                         `yaml:"overlap"`
	StartAt              *time.Time                             `yaml:"startAt"`
	EndAt                *time.Time                             `yaml:"endAt"`
	Job                  yamlfile.Shaped[client.SubmitJobInput] `yaml:"job"`
	// Workflow has the form of the file of `reelay workflows run`.
	Workflow *workflowFile `yaml:"workflow"`
}

// input converts the entry at a place of the file. What the server checks is left to it.
func (e *scheduleEntry) input(file *yamlfile.File, place string) client.ScheduleInput {
	in := client.ScheduleInput{
		Name: e.Name, Cron: lo.EmptyableToPtr(e.Cron), EverySeconds: lo.EmptyableToPtr(e.EverySeconds), Timezone: lo.EmptyableToPtr(e.Timezone),
		DstGap: lo.EmptyableToPtr(e.DSTGap), DstOverlap: lo.EmptyableToPtr(e.DSTOverlap),
		JitterSeconds: lo.EmptyableToPtr(e.JitterSeconds), CatchUp: lo.EmptyableToPtr(e.CatchUp), CatchUpWindowSeconds: e.CatchUpWindowSeconds,
		Overlap: lo.EmptyableToPtr(e.Overlap),
		StartAt: e.StartAt, EndAt: e.EndAt,
	}
	switch {
	case len(e.Job) == 0 && e.Workflow == nil:
		file.Problem(place, "a schedule needs a job or a workflow: what it submits")
	case len(e.Job) > 0 && e.Workflow != nil:
		file.Problem(place+".workflow", "a schedule submits either a job or a workflow: leave out one of them")
	case e.Workflow != nil:
		in.Workflow = new(e.Workflow.input(&nodeProblems{file: file, place: place + ".workflow"}))
	default:
		job, err := submission.ReadSubmission([]byte(e.Job))
		if err != nil {
			file.Problem(place+".job", "%s", err)
		}
		in.Job = &job
	}
	return in
}

// readSchedules reads a file of schedules. An error names the line.
func readSchedules(path string, stdin io.Reader) ([]client.ScheduleInput, error) {
	data, err := input.ReadUpTo(path, stdin, maxWorkflow)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	var in scheduleFile
	file, err := yamlfile.ReadUpTo(maxWorkflow, name, "schedules", data, &in)
	if err != nil {
		return nil, err
	}
	if len(in.Schedules) == 0 {
		file.Problem("$", "the file has no schedules: it needs a list named schedules")
	}
	var all []client.ScheduleInput
	seen := map[string]bool{}
	for i := range in.Schedules {
		place := fmt.Sprintf("$.schedules[%d]", i)
		one := in.Schedules[i].input(file, place)
		if one.Name == "" {
			file.Problem(place, "a schedule needs a name")
		} else if seen[one.Name] {
			file.Problem(place+".name", "two schedules have the name %s", text.Clip(one.Name, 64))
		}
		seen[one.Name] = true
		all = append(all, one)
	}
	return all, file.Err()
}

func schedulesApplyCommand() *cobra.Command {
	var path string
	call := &connect.Call{}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create and update the schedules of a file",
		Long: "Creates the schedules of a YAML file, and updates those that have the same name. Schedules that the file does not\n" +
			"name stay as they are. It stops at the first that is refused, and can be repeated.",
		Example: "  reelay schedules apply -f schedules.yaml",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&path, "file", "f", "", "the file; - is standard input")
	_ = cmd.MarkFlagRequired("file")
	return call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		all, err := readSchedules(path, cmd.InOrStdin())
		if err != nil {
			return nil, nil, err
		}
		var applied []client.Schedule
		for _, in := range all {
			s, err := c.ApplySchedule(ctx, in)
			if err != nil {
				return nil, nil, fmt.Errorf("the schedule %s: %w", output.Clean(in.Name), err)
			}
			applied = append(applied, *s)
		}
		return applied, func(out io.Writer) error {
			for _, s := range applied {
				next := "it is paused"
				if s.NextFireAt != nil {
					next = "next at " + inZone(*s.NextFireAt, s.Timezone)
				}
				fmt.Fprintf(out, "%s: %s; %s\n", output.Clean(s.Name), output.Clean(s.Description), next)
			}
			return nil
		}, nil
	})
}

func schedulesBackfillCommand() *cobra.Command {
	var from, to pastValue
	var most, perMinute int
	var dryRun bool
	cmd := onSchedule(&connect.Call{}, &cobra.Command{
		Use: "backfill SCHEDULE", Short: "Fire the times of the past at which a schedule did not fire",
		Long: "Fires each time between --from and --to at which the schedule did not fire. With --dry-run it only shows them.",
	}, func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error) {
		if dryRun {
			slots, err := c.ScheduleSlots(ctx, id, from.at, to.at, most)
			if err != nil {
				return nil, nil, err
			}
			return slots, func(out io.Writer) error {
				for _, at := range slots {
					fmt.Fprintln(out, output.Moment(at))
				}
				_, err := fmt.Fprintf(out, "%s; those that fired before do not fire again.\n", text.Count(len(slots), "slot"))
				return err
			}, nil
		}
		fired, err := c.FireSlots(ctx, id, from.at, to.at, most, perMinute)
		if err != nil {
			return nil, nil, err
		}
		runs := lo.FilterMap(fired, func(slot client.FiredSlot, _ int) (any, bool) {
			run, _ := runOf(slot)
			return run, run != nil
		})
		return runs, func(out io.Writer) error {
			for _, slot := range fired {
				_, id := runOf(slot)
				fmt.Fprintln(out, id)
			}
			switch {
			case perMinute > 0:
				fmt.Fprintln(out, "The others follow at the pace of --per-minute.")
			case len(fired) == 0:
				fmt.Fprintln(out, "Nothing is submitted yet: each slot of that time has fired, or waits to. `reelay schedules show` says why it waits.")
			}
			return nil
		}, nil
	})
	f := cmd.Flags()
	f.Var(&from, "from", "the first time, such as 2026-11-01T00:00:00Z")
	f.Var(&to, "to", "the end; that time itself is left out")
	f.IntVar(&most, "max", 100, "how many times there may be, 1 to 1000")
	f.IntVar(&perMinute, "per-minute", 0, "how many fire per minute, 1 to 60000; all at once if left out")
	f.BoolVar(&dryRun, "dry-run", false, "only show the times")
	_ = cmd.MarkFlagRequired("from")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

// pastValue is the value of a flag that names a time.
type pastValue struct{ at time.Time }

// Set implements [pflag.Value].
func (v *pastValue) Set(text string) (err error) {
	if v.at, err = time.Parse(time.RFC3339, text); err != nil {
		return errors.New("it must be a time with its zone, such as 2026-11-01T00:00:00Z or 2026-11-01T00:00:00+01:00")
	}
	return nil
}

// String implements [pflag.Value].
func (v *pastValue) String() string {
	if v.at.IsZero() {
		return ""
	}
	return v.at.Format(time.RFC3339)
}

// Type implements [pflag.Value].
func (v *pastValue) Type() string { return "time" }
