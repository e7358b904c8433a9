package operations

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
	"github.com/spf13/cobra"
)

// ChangesCommand returns `reelay changes`.
func ChangesCommand() *cobra.Command {
	var filter client.ChangeFilter
	var since, until sinceValue
	var kinds []string
	cmd := &cobra.Command{
		Use: "changes", Short: "Show what changed in the installation, newest first", Args: cobra.NoArgs,
		Long: `Show what changed in the installation, newest first: models, pools, workers, queues, halts, accounts,
members, keys, silences, and the versions and settings with which processes started.`,
		Example: `  reelay changes --since 24h
  reelay changes --kind model --kind pool`,
	}
	f := cmd.Flags()
	f.StringArrayVar(&kinds, "kind", nil, "only changes of this kind (may be repeated): "+strings.Join(changeKinds(), ", "))
	f.StringVar(&filter.Target, "target", "", "only changes of this object: an id, a model's name, a lane …")
	f.Var(&since, "since", "only changes since this time, such as 2027-01-02T15:04:05Z, or in this last time, such as 24h")
	f.Var(&until, "until", "only changes before this time, given like --since")
	list := &connect.Lister[client.Change]{
		Target: connect.Target{Operator: true},
		Table: output.Table[client.Change]{
			Columns: []output.Column[client.Change]{
				{Title: "AT", Value: func(c client.Change) any { return output.Moment(c.At) }},
				{Title: "KIND", Value: func(c client.Change) any { return strings.ToLower(string(c.Kind)) }},
				{Title: "CHANGE", Value: func(c client.Change) any { return c.Title }},
				{Title: "BY", Value: func(c client.Change) any { return c.Actor }},
				{Title: "DETAILS", Minor: true, Kind: output.Long, Value: func(c client.Change) any { return strings.Join(c.Details, "; ") }},
			},
			None: "Nothing changed.",
		},
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.Change], error) {
			filter.Since, filter.Until = since.at, until.at
			filter.Kinds = nil
			for _, kind := range kinds {
				filter.Kinds = append(filter.Kinds, client.ChangeKind(strings.ToUpper(kind)))
			}
			return output.Page[client.Change](c.Changes(ctx, filter, p.First, p.After))
		},
	}
	list.Command(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, kind := range kinds {
			if err := knownKind(kind); err != nil {
				return terminal.UsageError(cmd, err)
			}
		}
		return nil
	}
	return cmd
}

// changeKinds are the kinds of changes as the command takes them.
func changeKinds() []string {
	names := make([]string, len(client.AllChangeKind))
	for i, kind := range client.AllChangeKind {
		names[i] = strings.ToLower(string(kind))
	}
	return names
}

func knownKind(kind string) error {
	for _, known := range changeKinds() {
		if strings.EqualFold(kind, known) {
			return nil
		}
	}
	return fmt.Errorf("--kind is %q: it must be one of %s", kind, strings.Join(changeKinds(), ", "))
}

// sinceValue is the value of a flag that names a moment in the past: a time, or a duration before
// now.
type sinceValue struct{ at time.Time }

// Set implements [pflag.Value].
func (v *sinceValue) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		v.at = at
		return nil
	}
	before, err := time.ParseDuration(text)
	if err != nil || before <= 0 {
		return errors.New("it must be a time with its zone, such as 2027-01-02T15:04:05Z, or a duration before now, such as 24h or 90m")
	}
	v.at = time.Now().Add(-before).UTC().Round(time.Second)
	return nil
}

// String implements [pflag.Value].
func (v *sinceValue) String() string {
	if v.at.IsZero() {
		return ""
	}
	return v.at.Format(time.RFC3339)
}

// Type implements [pflag.Value].
func (v *sinceValue) Type() string { return "time|duration" }
