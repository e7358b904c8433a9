package workflows

import (
	"context"
	"fmt"
	"strconv"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

func schedulesUsageCommand() *cobra.Command {
	list := &connect.Lister[client.AccountSlots]{
		Table: output.Table[client.AccountSlots]{
			Columns: []output.Column[client.AccountSlots]{
				{Title: "ACCOUNT", Kind: output.Long, Value: func(a client.AccountSlots) any { return a.Name }},
				{Title: "SLOTS/MIN", Value: func(a client.AccountSlots) any {
					return ofLimit(output.Decimal(a.SlotUsage.PerMinute), a.SlotUsage.MaxPerMinute)
				}},
				{Title: "WAITING", Value: func(a client.AccountSlots) any {
					return ofLimit(strconv.Itoa(a.SlotUsage.Waiting), a.SlotUsage.MaxWaiting)
				}},
				{Title: "ID", Kind: output.ID, Wide: true, Value: func(a client.AccountSlots) any { return a.Id }},
			},
			Name: func(a client.AccountSlots) string { return a.Id },
			None: "No accounts.",
		},
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.AccountSlots], error) {
			own, err := c.SlotUsage(ctx)
			if err != nil {
				return output.List[client.AccountSlots]{}, err
			}
			if own.Role != client.RoleClient {
				return output.Page[client.AccountSlots](c.SlotUsages(ctx, p.First, p.After))
			}
			return output.All([]client.AccountSlots{lo.FromPtr(own.Account)}), nil
		},
	}
	return list.Command(&cobra.Command{
		Use:   "usage",
		Short: "Show how many slots the schedules have, and may have",
		Long: "Shows how many slots a minute the account's active schedules have, each counted with its busiest hour, and how many of\n" +
			"its slots wait to be submitted. Both have limits: see docs/users/limits.md. An operator sees all accounts.",
		Example: "  reelay schedules usage\n  reelay schedules usage --jq '.items[0].slotUsage'",
		Args:    cobra.NoArgs,
	})
}

// ofLimit is a figure with its limit, if there is one.
func ofLimit(figure string, limit *int) string {
	if limit == nil {
		return figure + ", no limit"
	}
	return fmt.Sprintf("%s of %d", figure, *limit)
}
