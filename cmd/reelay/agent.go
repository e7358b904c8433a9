package main

import (
	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/gpu/runtimes"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

// ownSignals marks the commands that say for themselves what a signal means: to
// an agent it is the notice that its machine goes.
const ownSignals = "own signals"

func agentCommands() []*cobra.Command {
	work := agent.Command(version.Current().String())
	runtime := runtimes.Command()
	for _, cmd := range append(runtime.Commands(), work) {
		cmd.Annotations = map[string]string{ownSignals: "yes"}
	}
	return []*cobra.Command{work, runtime}
}
