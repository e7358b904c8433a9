package operations

import (
	"context"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// AttentionCommand returns `reelay attention`.
func AttentionCommand() *cobra.Command {
	list := &connect.Lister[client.AttentionCause]{
		Target: connect.Target{Operator: true}, Whole: true,
		Table: output.Table[client.AttentionCause]{
			Columns: []output.Column[client.AttentionCause]{
				{Title: "URGENT", Value: func(c client.AttentionCause) any { return lo.Ternary(c.Urgent, "yes", "no") }},
				{Title: "CAUSE", Kind: output.Long, Value: func(c client.AttentionCause) any { return c.Title }},
				{Title: "SINCE", Value: func(c client.AttentionCause) any { return c.Since }},
				{Title: "DETAIL", Kind: output.Long, Value: func(c client.AttentionCause) any { return c.Detail }},
				{Title: "ALERTS", Kind: output.Long, Value: func(c client.AttentionCause) any { return symptoms(c) }},
				{Title: "KIND", Wide: true, Value: func(c client.AttentionCause) any { return c.Kind }},
				{Title: "PAGE", Kind: output.Long, Wide: true, Value: func(c client.AttentionCause) any { return c.Path }},
			},
			Name: func(c client.AttentionCause) string { return c.Title },
			None: "Nothing needs attention.",
		},
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.AttentionCause], error) {
			return output.Complete(c.Attention(ctx))
		},
	}
	return list.Command(&cobra.Command{
		Use:   "attention",
		Short: "List what needs attention, the most urgent first (for operators)",
		Long: "Lists causes: halts, machines that do not start, workers on which jobs fail, providers that fail, jobs that fail for\n" +
			"one reason, pauses, accounts that flood a lane, webhook endpoints that fail, pools at their limit. Each has the alerts\n" +
			"that follow from it. An alert that nothing explains has a line of its own.",
		Example: "  reelay attention\n  reelay attention --jq 'map(select(.urgent)) | length'",
		Args:    cobra.NoArgs,
	})
}

// symptoms names the alerts that follow from a cause.
func symptoms(c client.AttentionCause) string {
	return strings.Join(lo.Map(c.Alerts, func(a client.AttentionAlert, _ int) string { return string(a.Severity) + " " + a.Name }), ", ")
}

// causeLine is a cause in one line of `reelay top`.
func causeLine(c client.AttentionCause) string {
	parts := []string{output.Clean(c.Title)}
	if c.Detail != "" {
		parts = append(parts, output.Clean(c.Detail))
	}
	if c.Since != nil {
		parts = append(parts, output.Since(c.Since))
	}
	if alerts := symptoms(c); alerts != "" {
		parts = append(parts, alerts)
	}
	return lo.Ternary(c.Urgent, "urgent ", "notice ") + strings.Join(parts, " · ")
}
