// Command reelay-agent is the worker alone, without a server in it: small enough
// for a GPU image.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/gpu/runtimes"
	"github.com/reelay/reelay/internal/healthcheck"
	"github.com/reelay/reelay/internal/secretfile"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

func main() {
	command := newCommand()
	err := secretfile.Load()
	if err == nil {
		err = command.ExecuteContext(context.Background())
	}
	if err != nil {
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
	command.AddCommand(runtimes.Command(), healthcheck.Command("http://127.0.0.1:8081/readyz"), version.Command())
	for _, extra := range extraCommands {
		command.AddCommand(extra())
	}
	return command
}
