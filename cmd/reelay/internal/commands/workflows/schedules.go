package workflows

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// SchedulesCommand returns `reelay schedules`.
func SchedulesCommand() *cobra.Command {
	cmd := listSchedules(&cobra.Command{
		Use:   "schedules",
		Short: "Submit jobs and workflows again and again, at times",
		Long: "Lists the schedules, by name. Its subcommands change and fire them. A schedule is named by its name or its id.\n" +
			"docs/users/schedules.md describes the file of `reelay schedules apply`.",
		Example: "  reelay schedules apply -f schedules.yaml\n  reelay schedules next news --count 3\n" +
			"  reelay schedules backfill news --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listSchedules(&cobra.Command{Use: "list", Short: "List the schedules, by name", Args: cobra.NoArgs}),
		schedulesApplyCommand(), schedulesShowCommand(), schedulesNextCommand(), schedulesUsageCommand(),
		schedulesPauseCommand(), schedulesResumeCommand(), schedulesTriggerCommand(), schedulesBackfillCommand(), schedulesDeleteCommand())
	return cmd
}

var scheduleTable = output.Table[client.Schedule]{
	Columns: []output.Column[client.Schedule]{
		{Title: "NAME", Value: func(s client.Schedule) any { return s.Name }},
		{Title: "STATE", Kind: output.State, Value: func(s client.Schedule) any { return scheduleState(s) }},
		{Title: "WHEN", Kind: output.Long, Value: func(s client.Schedule) any { return s.Description }},
		{Title: "SUBMITS", Value: func(s client.Schedule) any { return scheduleSubmits(s) }},
		{Title: "NEXT", Value: func(s client.Schedule) any { return s.NextFireAt }},
		{Title: "LAST", Value: func(s client.Schedule) any { return s.LastFireAt }},
		{Title: "SCHEDULE", Kind: output.ID, Wide: true, Value: func(s client.Schedule) any { return s.Id }},
	},
	Name: func(s client.Schedule) string { return s.Name },
	None: "No schedules. `reelay schedules apply -f FILE` makes some.",
}

// scheduleSubmits names the model of the job that a schedule submits, or its workflow.
func scheduleSubmits(s client.Schedule) string {
	if s.Workflow != nil {
		return fmt.Sprintf("workflow %s (%s)", output.Clean(s.Workflow.Name), text.Count(s.Workflow.Jobs, "job"))
	}
	return output.Clean(lo.FromPtrOr(s.Model, ""))
}

func scheduleState(s client.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.NextFireAt == nil:
		return "ended"
	}
	return "active"
}

func listSchedules(cmd *cobra.Command) *cobra.Command {
	list := &connect.Lister[client.Schedule]{
		Table: scheduleTable,
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.Schedule], error) {
			return output.Page[client.Schedule](c.Schedules(ctx, "", p.First, p.After))
		},
	}
	return list.Command(cmd)
}

// findSchedule returns the id of the schedule with a name or an id.
func findSchedule(ctx context.Context, c *client.Client, name string) (string, error) {
	if strings.HasPrefix(name, "sch_") && len(name) == len("sch_")+36 {
		return name, nil
	}
	found, err := output.Page[client.Schedule](c.Schedules(ctx, name, 2, ""))
	switch {
	case err != nil:
		return "", err
	case len(found.Items) == 0:
		return "", fmt.Errorf("there is no schedule %s: `reelay schedules` lists them", text.Clip(name, 100))
	case len(found.Items) > 1:
		return "", fmt.Errorf("several accounts have a schedule %s: give its id, which `reelay schedules -o wide` shows", name)
	}
	return found.Items[0].Id, nil
}

// onSchedule is a command about one schedule, named by its name or id.
func onSchedule(
	call *connect.Call, cmd *cobra.Command, do func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error),
) *cobra.Command {
	cmd.Args = terminal.OneArg("SCHEDULE", "the name or the id of a schedule, as `reelay schedules` lists it")
	cmd.ValidArgsFunction = connect.FirstOnly(completeSchedules, connect.NoFiles)
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		id, err := findSchedule(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		return do(ctx, c, id)
	})
}

func schedulesShowCommand() *cobra.Command {
	var slots int
	cmd := onSchedule(&connect.Call{}, &cobra.Command{Use: "show SCHEDULE", Short: "Show a schedule, its newest slots and its next ones"},
		func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error) {
			s, err := c.Schedule(ctx, id, slots, 5)
			if err != nil {
				return nil, nil, err
			}
			return s, func(out io.Writer) error { return printSchedule(out, c, s) }, nil
		})
	cmd.Flags().IntVar(&slots, "slots", 10, "how many of the newest slots to show, 1 to 200")
	return cmd
}

func printSchedule(out io.Writer, c *client.Client, s *client.ScheduleDetail) error {
	field := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	field("name", "%s  (%s)", output.Clean(s.Name), s.Id)
	field("state", "%s", scheduleState(s.Schedule))
	if s.Paused {
		field("paused", "%s by %s: %s", output.Since(s.PausedAt), output.Clean(lo.FromPtrOr(s.PausedBy, "unknown")),
			output.Clean(lo.FromPtrOr(s.PauseReason, "no reason given")))
	}
	if s.HeldAt != nil {
		field("held", "%s: too many slots of the account wait to be submitted", output.Since(s.HeldAt))
	}
	field("fires", "%s", output.Clean(s.Description))
	if s.Cron != nil {
		field("cron", "%s", *s.Cron)
	}
	field("submits", "%s, %s", scheduleSubmits(s.Schedule), strings.ToLower(string(s.Tier)))
	field("rules", "late: %s within %s; overlap: %s", strings.ToLower(string(s.CatchUp)), text.Seconds(float64(s.CatchUpWindowSeconds)),
		strings.ToLower(string(s.Overlap)))
	for i, at := range s.Upcoming {
		field(map[bool]string{true: "next"}[i == 0], "%s", inZone(at, s.Timezone))
	}
	for _, slot := range s.Slots {
		became := strings.ToLower(string(slot.State))
		if slot.Job != nil {
			became += "  " + slot.Job.Id + "  " + strings.ToLower(string(slot.Job.Status))
		}
		if slot.Workflow != nil {
			became += "  " + slot.Workflow.Id + "  " + strings.ToLower(string(slot.Workflow.Status))
		}
		if slot.Reason != nil {
			became += "  " + output.Clean(*slot.Reason)
		}
		field("slot", "%s  %s", inZone(slot.At, s.Timezone), became)
	}
	field("console", "%s", connect.ConsoleURL(c, "/schedules/"+s.Id))
	return nil
}

// inZone writes a time in the zone of a schedule.
func inZone(at time.Time, zone string) string {
	if loaded, err := time.LoadLocation(zone); err == nil {
		at = at.In(loaded)
	}
	return at.Format("Mon ") + text.MomentToSecond(at, time.Now())
}

func schedulesNextCommand() *cobra.Command {
	var count int
	cmd := onSchedule(&connect.Call{}, &cobra.Command{Use: "next SCHEDULE", Short: "Show when a schedule fires next, in its zone"},
		func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error) {
			s, err := c.Schedule(ctx, id, 1, count)
			if err != nil {
				return nil, nil, err
			}
			return s.Upcoming, func(out io.Writer) error {
				if s.Paused {
					fmt.Fprintln(out, "It is paused.")
				}
				for _, at := range s.Upcoming {
					fmt.Fprintln(out, inZone(at, s.Timezone))
				}
				return nil
			}, nil
		})
	cmd.Flags().IntVar(&count, "count", 10, "how many times, 1 to 1000")
	return cmd
}

func schedulesPauseCommand() *cobra.Command {
	var reason string
	cmd := onSchedule(&connect.Call{}, &cobra.Command{Use: "pause SCHEDULE", Short: "Stop a schedule until it is resumed"},
		func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error) {
			s, err := c.PauseSchedule(ctx, id, reason)
			if err != nil {
				return nil, nil, err
			}
			return s, output.Line("%s is paused.", output.Clean(s.Name)), nil
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who see it later")
	return cmd
}

func schedulesResumeCommand() *cobra.Command {
	return onSchedule(&connect.Call{},
		&cobra.Command{Use: "resume SCHEDULE", Short: "Let a paused schedule fire again; the times of the pause are left out"},
		func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error) {
			s, err := c.ResumeSchedule(ctx, id)
			if err != nil {
				return nil, nil, err
			}
			if s.NextFireAt == nil {
				return s, output.Line("%s is resumed, but has ended.", output.Clean(s.Name)), nil
			}
			return s, output.Line("%s fires next at %s.", output.Clean(s.Name), inZone(*s.NextFireAt, s.Timezone)), nil
		})
}

func schedulesTriggerCommand() *cobra.Command {
	return onSchedule(&connect.Call{}, &cobra.Command{Use: "trigger SCHEDULE", Short: "Fire a schedule now, also if it is paused"},
		func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error) {
			slot, err := c.FireSchedule(ctx, id)
			if err != nil {
				return nil, nil, err
			}
			run, id := runOf(*slot)
			return run, output.Line("%s", id), nil
		})
}

// runOf returns what a slot submitted, a job or a workflow, and its id. It may be deleted: then run is nil.
func runOf(slot client.FiredSlot) (run any, id string) {
	switch {
	case slot.Workflow != nil:
		return slot.Workflow, slot.Workflow.Id
	case slot.Job != nil:
		return slot.Job, slot.Job.Id
	}
	return nil, "(deleted)"
}

func schedulesDeleteCommand() *cobra.Command {
	call := &connect.Call{Danger: connect.Question("Delete the schedule %s? What it submitted stays.")}
	return onSchedule(call, &cobra.Command{Use: "delete SCHEDULE", Short: "Delete a schedule; what it submitted stays"},
		func(ctx context.Context, c *client.Client, id string) (any, output.Printer, error) {
			if err := c.DeleteSchedule(ctx, id); err != nil {
				return nil, nil, err
			}
			return map[string]string{"deleted": id}, output.Line("%s is deleted.", id), nil
		})
}

// completeSchedules completes the names of schedules.
var completeSchedules = connect.FromAPI(connect.Target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Page[client.Schedule](c.Schedules(ctx, "", 100, ""))
	return connect.Described(list, func(s client.Schedule) (string, string) {
		return s.Name, scheduleState(s) + " " + output.Clip(output.Clean(s.Description), 50)
	}), err
})
