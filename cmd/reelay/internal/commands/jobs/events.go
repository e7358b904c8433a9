package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// eventOptions are the flags of `reelay events`.
type eventOptions struct {
	target   connect.Target
	output   output.Options
	follow   bool
	progress bool
}

// EventsCommand returns `reelay events`.
func EventsCommand() *cobra.Command {
	var o eventOptions
	cmd := &cobra.Command{
		Use:   "events JOB",
		Short: "Show what happened to a job",
		Long: "Shows what happened to a job, oldest first: when it was queued, leased, resumed, lost, retried, and how it ended.\n" +
			"With --follow, it waits for new events until the job ends, and JSON is one line for each event.",
		Example: "  reelay events job_01937d3e\n  reelay events -f job_01937d3e --progress",
		Args:    JobArg,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	connect.TakeIDs(cmd, "job")
	o.target.AddFlags(cmd)
	o.output.AddFlags(cmd)
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for new events until the job ends")
	f.BoolVar(&o.progress, "progress", false, "show the reports of progress too")
	return cmd
}

var eventTable = output.Table[client.JobEvent]{
	Columns: []output.Column[client.JobEvent]{
		{Title: "AT", Value: func(e client.JobEvent) any { return e.CreatedAt }},
		{Title: "RUN", Wide: true, Value: func(e client.JobEvent) any { return e.Run }},
		{Title: "EVENT", Kind: output.State, Value: func(e client.JobEvent) any { return string(e.Type) }},
		{Title: "ATTEMPT", Kind: output.ID, Wide: true, Value: func(e client.JobEvent) any { return e.AttemptId }},
		{Title: "DETAILS", Kind: output.Long, Value: func(e client.JobEvent) any { return eventDetails(e.Payload) }},
	},
	None: "No events.",
}

func (o *eventOptions) run(cmd *cobra.Command, text string) error {
	if err := o.output.Check(); err != nil {
		return terminal.UsageError(cmd, err)
	}
	ctx, screen := cmd.Context(), o.output.Screen(cmd, cmd.OutOrStdout())
	c, err := o.target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	id, err := connect.FullID(ctx, c, "job", text)
	if err != nil {
		return o.target.Explain(err)
	}
	if o.follow {
		return o.target.Explain(o.followEvents(ctx, c, id, screen))
	}
	list := output.All[client.JobEvent](nil)
	for after := ""; ; {
		page, _, err := c.JobEventPage(ctx, id, 200, after)
		if err != nil {
			return o.target.Explain(err)
		}
		for _, edge := range page.Edges {
			if o.shows(edge.Node) {
				list.Items = append(list.Items, edge.Node)
			}
		}
		if !page.PageInfo.HasNextPage || page.PageInfo.EndCursor == nil {
			break
		}
		after = *page.PageInfo.EndCursor
	}
	return output.Show(&o.output, screen, cmd.ErrOrStderr(), &eventTable, &list, list)
}

func (o *eventOptions) shows(e client.JobEvent) bool {
	return o.progress || e.Type != client.JobEventTypeProgress
}

// followEvents prints the events of a job, those of the past first, until it ends.
func (o *eventOptions) followEvents(ctx context.Context, c *client.Client, id string, screen *output.Screen) error {
	failures := 0
	for event, err := range c.JobEvents(ctx, id, 0) {
		switch {
		case ctx.Err() != nil:
			return progress.Interrupted(id)
		case err != nil:
			failures++
			if e, ok := errors.AsType[*client.Error](err); !ok || !e.Retryable() || failures > progress.FirstTries {
				return err
			}
			continue
		}
		failures = 0
		if !o.shows(*event) {
			continue
		}
		if err := o.printEvent(screen, event); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return progress.Interrupted(id)
	}
	return nil
}

func (o *eventOptions) printEvent(screen *output.Screen, event *client.JobEvent) error {
	if !o.output.ForPeople() {
		return o.output.Print(screen, event, nil)
	}
	line := fmt.Sprintf("%s  %-16s  %s", event.CreatedAt.Local().Format(time.TimeOnly), event.Type, output.Clean(eventDetails(event.Payload)))
	if screen.Width > 0 {
		line = output.Clip(line, screen.Width)
	}
	_, err := io.WriteString(screen, strings.TrimRight(line, " ")+"\n")
	return err
}

// eventDetails returns the payload of an event as words: name value, sorted by name.
func eventDetails(payload json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(payload, &fields) != nil {
		return string(payload)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch value.(type) {
		case nil:
			continue
		case map[string]any, []any:
			text, err := json.Marshal(value)
			if err != nil {
				continue
			}
			value = string(text)
		}
		parts = append(parts, fmt.Sprintf("%s %v", name, value))
	}
	return strings.Join(parts, ", ")
}
