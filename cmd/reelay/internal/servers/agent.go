package servers

import (
	"github.com/reelay/reelay/gpu/agent"
	"github.com/reelay/reelay/gpu/runtimes"
	"github.com/reelay/reelay/internal/version"
	"github.com/spf13/cobra"
)

// OwnSignals marks the commands that handle signals themselves: to an agent, a signal is
// the notice that its machine goes away.
const OwnSignals = "own signals"

// AgentCommands returns `reelay agent` and `reelay runtime`, which run on the machines of workers.
func AgentCommands() []*cobra.Command {
	work := agent.Command(version.Current().String())
	runtime := runtimes.Command()
	for _, cmd := range append(runtime.Commands(), work) {
		cmd.Annotations = map[string]string{OwnSignals: "yes"}
	}
	return []*cobra.Command{work, runtime}
}
