package main

import (
	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/gpu/runtimes"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

// ownSignals marks the commands that handle signals themselves: to an agent, a signal is
// the notice that its machine goes away.
const ownSignals = "own signals"

func agentCommands() []*cobra.Command {
	work := agent.Command(version.Current().String())
	runtime := runtimes.Command()
	for _, cmd := range append(runtime.Commands(), work) {
		cmd.Annotations = map[string]string{ownSignals: "yes"}
	}
	return []*cobra.Command{work, runtime}
}
