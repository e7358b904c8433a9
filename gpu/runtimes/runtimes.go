// Package runtimes makes the runtimes that are built into Reelay's programs
// available as commands.
package runtimes

import (
	"context"
	"io"

	program "github.com/reelay/reelay/gpu/runtimes/command"
	"github.com/reelay/reelay/gpu/runtimes/drill"
	"github.com/reelay/reelay/gpu/runtimes/httpcall"
	"github.com/reelay/reelay/gpu/runtimes/remote/kinds"
	"github.com/reelay/reelay/gpu/runtimes/stitch"
	"github.com/reelay/reelay/gpu/runtimes/testcard"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/spf13/cobra"
)

// Command returns the command `runtime` with one subcommand for each built-in
// runtime. They speak the runtime protocol on standard input and output.
func Command() *cobra.Command {
	command := &cobra.Command{
		Use:    "runtime",
		Short:  "Be a runtime that an agent starts",
		Hidden: true,
	}
	command.AddCommand(
		serve(testcard.Name, "Render test cards for the agent at the other end of the standard input and output", testcard.Run),
		serve(drill.Name, "Rehearse renders for the agent at the other end of the standard input and output", drill.Run),
		serve(program.Name, "Run programs for the agent at the other end of the standard input and output", program.Run),
		httpCommand(),
		kinds.Command(),
		&cobra.Command{
			Use:   "stitch JOB",
			Short: "Join clips to one video, as the job in a file says",
			Args:  cobra.ExactArgs(1),
			RunE: func(command *cobra.Command, args []string) error {
				return stitch.Main(command.Context(), args[0], command.OutOrStdout())
			},
		},
		&cobra.Command{
			Use:   "thumbnail VIDEO SECONDS WIDTH FILE",
			Short: "Write the picture of a video at a moment to a file",
			Args:  cobra.ExactArgs(4),
			RunE: func(command *cobra.Command, args []string) error {
				return stitch.Thumbnail(command.Context(), args[0], args[1], args[2], args[3], command.ErrOrStderr())
			},
		})
	return command
}

// httpCommand returns the subcommand of the runtime http.
func httpCommand() *cobra.Command {
	var policy outbound.Policy
	var except []string
	command := serve(httpcall.Name, "Make HTTP requests for the agent at the other end of the standard input and output",
		func(ctx context.Context, in io.Reader, out io.Writer) error {
			return httpcall.Run(ctx, in, out, policy.Except(except...))
		})
	command.Flags().BoolVar(&policy.AllowLoopback, "allow-loopback", false, "allow calls to this machine, for a laptop")
	command.Flags().StringSliceVar(&except, "except", nil, "addresses of Reelay itself, as host:port, which no job can call")
	return command
}

// serve returns the subcommand of a runtime.
func serve(name, short string, run func(context.Context, io.Reader, io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), command.InOrStdin(), command.OutOrStdout())
		},
	}
}
