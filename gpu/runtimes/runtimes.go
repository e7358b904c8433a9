// Package runtimes makes the runtimes that are built into Reelay's programs
// available as commands.
package runtimes

import (
	"github.com/spf13/cobra"

	"github.com/reelay/reelay/gpu/runtimes/drill"
	"github.com/reelay/reelay/gpu/runtimes/testcard"
)

// Command returns the command `runtime` with one subcommand for each built-in
// runtime. They speak the runtime protocol on standard input and output.
func Command() *cobra.Command {
	command := &cobra.Command{
		Use:    "runtime",
		Short:  "Be a runtime that an agent starts",
		Hidden: true,
	}
	command.AddCommand(&cobra.Command{
		Use:   testcard.Name,
		Short: "Render test cards for the agent at the other end of the standard input and output",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return testcard.Run(command.Context(), command.InOrStdin(), command.OutOrStdout())
		},
	}, &cobra.Command{
		Use:   drill.Name,
		Short: "Rehearse renders for the agent at the other end of the standard input and output",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return drill.Run(command.Context(), command.InOrStdin(), command.OutOrStdout())
		},
	})
	return command
}
