package workflows

import (
	"context"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

func workflowsApproveCommand() *cobra.Command {
	var pick, note string
	call := &connect.Call{}
	cmd := call.Command(&cobra.Command{
		Use: "approve WORKFLOW NODE", Short: "Pick a candidate of a node that waits for an answer",
		Long: "Answers a node with the model workflow.approval: it completes with the result of the picked candidate, and the nodes\n" +
			"after it can start. `reelay workflows show` lists the nodes that wait, and the links to answer without a key.",
		Example: "  reelay workflows approve wfl_01937d3e shots.fog --pick shots.fog.t2",
		Args:    exactly("the id of a workflow, and the key of its node that waits for an answer"),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return changeNodes(ctx, c, args[0], args[1:], func(id, key string) (*client.Workflow, string, error) {
			w, err := c.ApproveWorkflowJob(ctx, id, key, pick, note)
			return w, "is approved", err
		})
	})
	cmd.Flags().StringVar(&pick, "pick", "", "the key of a candidate, or the id of its job (default: the only one that is complete)")
	addNote(cmd, &note)
	return cmd
}

func workflowsRejectCommand() *cobra.Command {
	var note string
	call := &connect.Call{}
	cmd := call.Command(&cobra.Command{
		Use: "reject WORKFLOW NODE", Short: "Reject the candidates of a node that waits for an answer",
		Long: "Answers a node with the model workflow.approval: it fails, and so do the nodes after it. `reelay workflows retry`\n" +
			"asks again.",
		Example: "  reelay workflows reject wfl_01937d3e shots.fog --note \"too dark\"",
		Args:    exactly("the id of a workflow, and the key of its node that waits for an answer"),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return changeNodes(ctx, c, args[0], args[1:], func(id, key string) (*client.Workflow, string, error) {
			w, err := c.RejectWorkflowJob(ctx, id, key, note)
			return w, "is rejected", err
		})
	})
	addNote(cmd, &note)
	return cmd
}

func addNote(cmd *cobra.Command, note *string) {
	cmd.Flags().StringVar(note, "note", "", "why, which the workflow shows; up to 200 characters")
}

// exactly checks that there are two arguments, which what describes.
func exactly(what string) cobra.PositionalArgs {
	return cobra.MatchAll(nodeArgs(2, what), cobra.MaximumNArgs(2))
}
