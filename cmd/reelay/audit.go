package main

import (
	"context"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func auditCommand() *cobra.Command {
	var about string
	cmd := &cobra.Command{Use: "audit", Short: "Show the audit log, newest first (for admins)", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&about, "target", "", "only actions on this target: the id of a job, worker, account, key …")
	list := &lister[client.AuditEntry]{
		target: target{admin: true},
		header: []string{"AT (UTC)", "KEY", "ACTION", "TARGET", "DETAILS"},
		row: func(e client.AuditEntry) []string {
			more := ""
			if e.Payload != nil {
				more = string(*e.Payload)
			}
			return []string{e.At.UTC().Format(time.RFC3339), e.Actor, e.Action, orDash(e.Target), more}
		},
		ask: func(ctx context.Context, c *client.Client, p page) (listed[client.AuditEntry], error) {
			return listOf[client.AuditEntry](c.AuditLog(ctx, about, p.first, p.after))
		},
	}
	return list.command(cmd)
}
