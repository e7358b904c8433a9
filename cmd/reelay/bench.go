package main

import (
	"github.com/spf13/cobra"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast Reelay is on this machine",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchPickupCommand(), benchSubscriptionsCommand(), benchListsCommand())
	return cmd
}
