package operations

import (
	"context"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

// AuditCommand returns `reelay audit`.
func AuditCommand() *cobra.Command {
	var about string
	cmd := &cobra.Command{Use: "audit", Short: "Show the audit log, newest first (for admins)", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&about, "target", "", "only actions on this target: the id of a job, worker, account, key …")
	list := &connect.Lister[client.AuditEntry]{
		Target: connect.Target{Admin: true},
		Table: output.Table[client.AuditEntry]{
			Columns: []output.Column[client.AuditEntry]{
				{Title: "AT", Value: func(e client.AuditEntry) any { return output.Moment(e.At) }},
				{Title: "ACTOR", Value: func(e client.AuditEntry) any { return e.Actor }},
				{Title: "ACTION", Value: func(e client.AuditEntry) any { return e.Action }},
				{Title: "TARGET", Value: auditTarget},
				{Title: "ID", Kind: output.ID, Wide: true, Value: func(e client.AuditEntry) any { return e.Target }},
				{Title: "KEY", Kind: output.ID, Wide: true, Value: func(e client.AuditEntry) any { return e.KeyId }},
				{Title: "DETAILS", Minor: true, Kind: output.Long, Value: func(e client.AuditEntry) any { return strings.Join(e.Details, "; ") }},
			},
			None: "No actions.",
		},
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.AuditEntry], error) {
			return output.Page[client.AuditEntry](c.AuditLog(ctx, about, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

// auditTarget is the name of what an action was about, or else its id.
func auditTarget(e client.AuditEntry) any {
	if e.TargetName != nil {
		return *e.TargetName
	}
	return e.Target
}
