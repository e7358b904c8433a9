package main

import (
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func auditCommand() *cobra.Command {
	t := target{admin: true}
	var p page
	var about string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what operators did, newest first (for admins)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return &usageError{cmd, err}
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			found, err := c.AuditLog(cmd.Context(), about, p.first, p.after)
			if err != nil {
				return apiError(err)
			}
			list := part[client.AuditEntry]{Items: []client.AuditEntry{}, HasNextPage: found.PageInfo.HasNextPage, EndCursor: found.PageInfo.EndCursor}
			var rows [][]string
			for _, edge := range found.Edges {
				e := edge.Node
				list.Items = append(list.Items, e)
				more := ""
				if e.Payload != nil {
					more = string(*e.Payload)
				}
				rows = append(rows, []string{e.At.UTC().Format(time.RFC3339), e.Actor, e.Action, orDash(e.Target), more})
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			if err := printTable(cmd.OutOrStdout(), []string{"AT (UTC)", "KEY", "ACTION", "TARGET", "DETAILS"}, rows); err != nil {
				return err
			}
			return list.printMore(cmd)
		},
	}
	t.addFlags(cmd)
	p.addFlags(cmd)
	cmd.Flags().StringVar(&about, "target", "", "only what was done to this: the id of a job, worker, account, key …")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
