// Command reelay-agent is the worker alone, without a server in it: small enough
// for a GPU image.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/gpu/runtimes"
)

func main() {
	command := newCommand()
	if err := command.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.Name(), err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	command := agent.Command(version())
	command.Use = "reelay-agent"
	command.Version = version()
	command.AddCommand(runtimes.Command())
	return command
}

// version is that of the module this program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
