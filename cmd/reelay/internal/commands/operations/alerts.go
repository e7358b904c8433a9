package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// AlertsCommand returns `reelay alerts`.
func AlertsCommand() *cobra.Command {
	cmd := listAlerts(&cobra.Command{
		Use:   "alerts",
		Short: "List alerts, acknowledge and silence them (for operators)",
		Long:  "Lists the alerts that fire, newest first.",
		Example: "  reelay alerts\n  reelay alerts acknowledge alr_01937d3e-…\n" +
			"  reelay alerts silence queue-depth --for 2h --reason 'a batch runs'",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listAlerts(&cobra.Command{Use: "list", Short: "List the alerts that fire, newest first", Args: cobra.NoArgs}),
		alertsAcknowledgeCommand(), alertsSilenceCommand(), alertsEndSilenceCommand(), alertsSilencesCommand(), alertsRulesCommand(),
		alertsReceiversCommand(), alertsTestCommand())
	return cmd
}

var alertTable = output.Table[client.Alert]{
	Columns: []output.Column[client.Alert]{
		{Title: "ALERT", Kind: output.ID, Value: func(a client.Alert) any { return a.Id }},
		{Title: "SEVERITY", Value: func(a client.Alert) any { return a.Severity }},
		{Title: "STATE", Kind: output.State, Value: func(a client.Alert) any { return alertState(a) }},
		{Title: "SINCE", Value: func(a client.Alert) any { return a.Since }},
		{Title: "BY", Value: func(a client.Alert) any { return a.AcknowledgedBy }},
		{Title: "MESSAGE", Kind: output.Long, Value: func(a client.Alert) any { return a.Message }},
		{Title: "RUNBOOK", Kind: output.Long, Wide: true, Value: func(a client.Alert) any { return a.RunbookUrl }},
	},
	Name: func(a client.Alert) string { return a.Id },
	None: "Nothing fires.",
}

func alertState(a client.Alert) string {
	switch {
	case a.ResolvedAt != nil:
		return "RESOLVED"
	case a.AcknowledgedAt != nil:
		return "ACKNOWLEDGED"
	}
	return "FIRING"
}

func listAlerts(cmd *cobra.Command) *cobra.Command {
	var all bool
	cmd.Flags().BoolVar(&all, "all", false, "also those that are resolved, the newest 200")
	list := &connect.Lister[client.Alert]{
		Target: connect.Target{Operator: true}, Table: alertTable, Whole: true,
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.Alert], error) {
			return output.Complete(c.Alerts(ctx, !all))
		},
	}
	return list.Command(cmd)
}

func alertsRulesCommand() *cobra.Command {
	list := &connect.Lister[client.AlertRule]{
		Target: connect.Target{Operator: true}, Whole: true,
		Table: output.Table[client.AlertRule]{
			Columns: []output.Column[client.AlertRule]{
				{Title: "RULE", Value: func(r client.AlertRule) any { return r.Name }},
				{Title: "SEVERITY", Value: func(r client.AlertRule) any { return r.Severity }},
				{Title: "CONDITION", Value: func(r client.AlertRule) any {
					if r.Off {
						return "off"
					}
					return r.Condition
				}},
				{Title: "TITLE", Kind: output.Long, Value: func(r client.AlertRule) any { return r.Title }},
			},
			Name: func(r client.AlertRule) string { return r.Name },
			None: "No rules.",
		},
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.AlertRule], error) {
			return output.Complete(c.AlertRules(ctx))
		},
	}
	return list.Command(&cobra.Command{Use: "rules", Short: "List the rules of alerts", Args: cobra.NoArgs})
}

func alertsSilencesCommand() *cobra.Command {
	list := &connect.Lister[client.AlertSilence]{
		Target: connect.Target{Operator: true}, Whole: true,
		Table: output.Table[client.AlertSilence]{
			Columns: []output.Column[client.AlertSilence]{
				{Title: "SILENCE", Kind: output.ID, Value: func(s client.AlertSilence) any { return s.Id }},
				{Title: "RULE", Value: func(s client.AlertSilence) any {
					if s.Rule == nil {
						return "all"
					}
					return *s.Rule
				}},
				{Title: "UNTIL", Value: func(s client.AlertSilence) any { return s.Until }},
				{Title: "BY", Value: func(s client.AlertSilence) any { return s.CreatedBy }},
				{Title: "REASON", Kind: output.Long, Value: func(s client.AlertSilence) any { return s.Reason }},
			},
			Name: func(s client.AlertSilence) string { return s.Id },
			None: "No silences.",
		},
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.AlertSilence], error) {
			return output.Complete(c.AlertSilences(ctx))
		},
	}
	return list.Command(&cobra.Command{Use: "silences", Short: "List the silences that are not over", Args: cobra.NoArgs})
}

func alertsReceiversCommand() *cobra.Command {
	list := &connect.Lister[client.AlertRoute]{
		Target: connect.Target{Operator: true}, Whole: true,
		Table: output.Table[client.AlertRoute]{
			Columns: []output.Column[client.AlertRoute]{
				{Title: "RECEIVER", Value: func(r client.AlertRoute) any { return r.Name }},
				{Title: "KIND", Value: func(r client.AlertRoute) any { return r.Kind }},
				{Title: "SEVERITIES", Value: func(r client.AlertRoute) any {
					if len(r.Severities) == 0 {
						return "all"
					}
					return text.Join(r.Severities)
				}},
			},
			Name: func(r client.AlertRoute) string { return r.Name },
			None: "No receivers: alerts are only shown. See docs/operators/alerts.md.",
		},
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.AlertRoute], error) {
			return output.Complete(c.AlertRoutes(ctx))
		},
	}
	return list.Command(&cobra.Command{Use: "receivers", SuggestFor: []string{"routes"},
		Short: "List the receivers of alerts in the server's configuration", Args: cobra.NoArgs})
}

func alertsAcknowledgeCommand() *cobra.Command {
	call := &connect.Call{Target: connect.Target{Operator: true}, Kind: "alr"}
	cmd := &cobra.Command{Use: "acknowledge ALERT", Aliases: []string{"ack"}, Short: "Record that you are handling an alert",
		Args: terminal.OneArg("ALERT", "the id of an alert, as `reelay alerts` lists it")}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		a, err := c.AcknowledgeAlert(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		return a, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "%s is acknowledged: %s\n", a.Name, output.Clean(a.Message))
			return err
		}, nil
	})
}

func alertsSilenceCommand() *cobra.Command {
	var lasting time.Duration
	var reason string
	call := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := &cobra.Command{
		Use: "silence [RULE]", Short: "Send no messages about a rule, or about all of them, for a while",
		Long:    "Alerts are still shown. `reelay alerts rules` lists the rules, `reelay alerts end-silence` ends it early.",
		Example: "  reelay alerts silence queue-depth --for 2h --reason 'a batch runs'",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().DurationVar(&lasting, "for", time.Hour, "how long, 1m to 720h, in whole minutes")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who see it (required)")
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		switch {
		case lasting < time.Minute || lasting%time.Minute != 0:
			return nil, nil, terminal.UsageError(cmd, fmt.Errorf("--for is %s: it must be in whole minutes", lasting))
		case reason == "":
			return nil, nil, terminal.UsageError(cmd, errors.New("--reason is missing: say why the alerts are silenced"))
		}
		s, err := c.SilenceAlerts(ctx, strings.Join(args, ""), int(lasting.Minutes()), reason)
		if err != nil {
			return nil, nil, err
		}
		return s, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "%s lasts until %s\n", s.Id, output.Moment(s.Until))
			return err
		}, nil
	})
}

func alertsEndSilenceCommand() *cobra.Command {
	call := &connect.Call{Target: connect.Target{Operator: true}, Kind: "sil"}
	cmd := &cobra.Command{Use: "end-silence SILENCE", Short: "End a silence now",
		Args: terminal.OneArg("SILENCE", "the id of a silence, as `reelay alerts silences` lists it")}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		s, err := c.EndSilence(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		return s, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "%s is over\n", s.Id)
			return err
		}, nil
	})
}

func alertsTestCommand() *cobra.Command {
	call := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := &cobra.Command{Use: "test RECEIVER", Short: "Send a test message to a receiver",
		Args: terminal.OneArg("RECEIVER", "the name of a receiver in the configuration")}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		failure, err := c.TestAlertRoute(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		if failure != "" {
			return nil, nil, fmt.Errorf("the test message to %s failed: %s", args[0], failure)
		}
		return map[string]string{"sent": args[0]}, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "sent a test message to %s\n", args[0])
			return err
		}, nil
	})
}
