// Command reelay-agent is the worker alone, without a server in it: small enough
// for a GPU image.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/gpu/runtimes"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

func main() {
	command := newCommand()
	if err := command.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.Name(), err)
		os.Exit(1)
	}
}

// extraCommands are those of builds with tags, see man.go.
var extraCommands []func() *cobra.Command

func newCommand() *cobra.Command {
	build := version.Current().String()
	command := agent.Command(build)
	command.Use = "reelay-agent"
	command.Version = build
	command.AddCommand(runtimes.Command(), version.Command())
	for _, extra := range extraCommands {
		command.AddCommand(extra())
	}
	return command
}
