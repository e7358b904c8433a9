package workflows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/submission"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// Command returns `reelay workflows`.
func Command() *cobra.Command {
	cmd := listWorkflows(&cobra.Command{
		Use:   "workflows",
		Short: "Submit jobs that depend on each other as one graph",
		Long: "Lists the workflows, newest first. Its subcommands submit, cancel and retry them, and release nodes\n" +
			"that wait for others. docs/users/workflows.md describes the file of `reelay workflows run`.",
		Example: "  reelay workflows run -f film.yaml --wait\n  reelay workflows show wfl_01937d3e",
		Args:    terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listWorkflows(&cobra.Command{Use: "list", Short: "List workflows, newest first", Args: cobra.NoArgs}),
		workflowsRunCommand(), workflowsShowCommand(), workflowsCancelCommand(), workflowsRetryCommand(),
		workflowsApproveCommand(), workflowsRejectCommand(), workflowsSkipCommand(), workflowsOverrideCommand())
	return cmd
}

var workflowTable = output.Table[client.Workflow]{
	Columns: []output.Column[client.Workflow]{
		{Title: "WORKFLOW", Kind: output.ID, Value: func(w client.Workflow) any { return w.Id }},
		{Title: "NAME", Value: func(w client.Workflow) any { return w.Name }},
		{Title: "STATUS", Kind: output.State, Value: func(w client.Workflow) any { return string(w.Status) }},
		{Title: "DONE", Value: func(w client.Workflow) any { return fmt.Sprintf("%.0f %%", w.Percent) }},
		{Title: "JOBS", Value: func(w client.Workflow) any { return w.Counts.Total }},
		{Title: "FAILED", Minor: true, Value: func(w client.Workflow) any { return w.Counts.Failed }},
		{Title: "CREATED", Value: func(w client.Workflow) any { return w.CreatedAt }},
		{Title: "ENDED", Wide: true, Value: func(w client.Workflow) any { return w.CompletedAt }},
	},
	Name: func(w client.Workflow) string { return w.Id },
	None: "No workflows. `reelay workflows run -f FILE` submits one.",
}

func listWorkflows(cmd *cobra.Command) *cobra.Command {
	var name string
	var status []string
	var states []client.WorkflowStatus
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if states, err = input.ParseEnums("status", status, client.AllWorkflowStatus); err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	cmd.Flags().StringVar(&name, "name", "", "only workflows of this name")
	cmd.Flags().StringSliceVar(&status, "status", nil, "only workflows in these states")
	list := &connect.Lister[client.Workflow]{
		Table: workflowTable,
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.Workflow], error) {
			return output.Page[client.Workflow](c.Workflows(ctx, name, states, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

// workflowRun are the flags of commands that submit a workflow.
type workflowRun struct {
	target         connect.Target
	idempotencyKey string
	wait, asJSON   bool
	document       output.Options
}

func (o *workflowRun) addFlags(cmd *cobra.Command) {
	o.target.AddFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "show the progress and wait until the workflow ends")
	f.StringVar(&o.idempotencyKey, "idempotency-key", "", "the same key with the same workflow gives the same workflow (default: a new one)")
	o.document.AddDocumentFlags(cmd, &o.asJSON)
}

// submit submits a workflow. If the call fails but the workflow may exist, the error says how to find out.
func (o *workflowRun) submit(ctx context.Context, c *client.Client, in client.SubmitWorkflowInput) (*client.Workflow, error) {
	if in.IdempotencyKey == nil || o.idempotencyKey != "" {
		in.IdempotencyKey = new(input.First(o.idempotencyKey, "cli-"+uuid.NewString()))
	}
	w, err := c.SubmitWorkflow(ctx, in)
	if err == nil {
		return w, nil
	}
	e, ok := errors.AsType[*client.Error](err)
	err = submission.Unanswered(ctx, err)
	if ok && e.Unsettled {
		err = fmt.Errorf(
			"%w\nThe workflow may have been accepted. Repeat the command with --idempotency-key %s: it finds the workflow, or submits it once",
			err, *in.IdempotencyKey,
		)
	}
	if ctx.Err() != nil {
		return nil, terminal.StatusError(terminal.ExitInterrupted, err)
	}
	return nil, err
}

func workflowsRunCommand() *cobra.Command {
	var o workflowRun
	var path string
	cmd := &cobra.Command{
		Use:   "run -f FILE",
		Short: "Submit the workflow of a file",
		Long: "Submits the workflow of a file in YAML or JSON, a SubmitWorkflowInput, and prints its id.\n" +
			"With --wait, the exit status is 1 if it does not complete.",
		Example: "  reelay workflows run -f workflow.yaml --wait",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := readWorkflow(path, cmd.InOrStdin())
			if err != nil {
				return err
			}
			c, err := o.target.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			w, err := o.submit(cmd.Context(), c, in)
			if err != nil {
				return err
			}
			if !o.wait {
				return o.print(cmd.OutOrStdout(), w, w.Id)
			}
			d := progress.DisplayFor(cmd, cmd.ErrOrStderr())
			d.Silent = o.asJSON && !d.TTY
			d.Note(w.Id + " is accepted")
			ended, err := followWorkflow(cmd.Context(), c, w, d)
			if err != nil {
				return err
			}
			if err := o.print(cmd.OutOrStdout(), ended, ended.Id); err != nil {
				return err
			}
			return WorkflowEnding(ended)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVarP(&path, "file", "f", "", "the file; - is standard input")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func (o *workflowRun) print(out io.Writer, answer any, text string) error {
	if o.asJSON {
		return o.document.Print(output.ScreenOf(out), answer, nil)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// pageLine links the workflow's page in the console.
func pageLine(c *client.Client, w *client.WorkflowDetail) string {
	return "console: " + connect.ConsoleURL(c, "/workflows/"+w.Id) + "\n"
}

func workflowsShowCommand() *cobra.Command {
	call := &connect.Call{Kind: connect.WorkflowKind}
	return call.Command(&cobra.Command{
		Use: "show WORKFLOW", Short: "Show a workflow and its nodes, and why they wait or failed", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		w, err := c.WorkflowDetail(ctx, args[0])
		return w, func(out io.Writer) error { return printWorkflow(out, c, w) }, err
	})
}

func printWorkflow(out io.Writer, c *client.Client, w *client.WorkflowDetail) error {
	screen := output.ScreenOf(out)
	if err := workflowTable.Write(screen, []client.Workflow{w.Workflow}); err != nil {
		return err
	}
	if w.CancelReason != nil {
		fmt.Fprintf(out, "cancelled: %s\n", output.Clean(*w.CancelReason))
	}
	fmt.Fprintln(out, pageLine(c, w))
	NameNodes(w.Jobs)
	if err := nodeTable.Write(screen, w.Jobs); err != nil {
		return err
	}
	for _, n := range w.Jobs {
		if a := n.Approval; a != nil && a.Url != nil {
			fmt.Fprintf(out, "\n%s waits for an answer: %s\n  link: %s\n  or:   reelay workflows approve %s %s --pick %s\n", output.Clean(n.Key),
				output.Clean(input.First(a.Question, "pick a candidate")), *a.Url, w.Id, output.Clean(n.Key), candidateNames(a))
		}
	}
	return nil
}

// candidateNames lists what can be picked.
func candidateNames(a *client.WorkflowApproval) string {
	var names []string
	for _, c := range a.Candidates {
		switch {
		case c.Key != nil:
			names = append(names, output.Clean(*c.Key))
		case c.Job != nil:
			names = append(names, c.Job.Id)
		}
	}
	return strings.Join(names, "|")
}

var nodeTable = output.Table[client.WorkflowNode]{
	Columns: []output.Column[client.WorkflowNode]{
		{Title: "NODE", Value: func(n client.WorkflowNode) any { return n.Key }},
		{Title: "STATUS", Kind: output.State, Value: func(n client.WorkflowNode) any { return nodeState(n) }},
		{Title: "DONE", Minor: true, Value: func(n client.WorkflowNode) any { return fmt.Sprintf("%.0f %%", n.Job.Progress.Percent) }},
		{Title: "MODEL", Minor: true, Value: func(n client.WorkflowNode) any { return n.Job.Model }},
		{Title: "JOB", Kind: output.ID, Value: func(n client.WorkflowNode) any { return n.Job.Id }},
		{Title: "AFTER", Wide: true, Value: func(n client.WorkflowNode) any { return n.After }},
		{Title: "WHY", Kind: output.Long, Value: func(n client.WorkflowNode) any { return nodeReason(n) }},
	},
	Name: func(n client.WorkflowNode) string { return n.Key },
}

// NameNodes replaces the ids of jobs by the keys of their nodes in what the nodes wait for.
func NameNodes(nodes []client.WorkflowNode) {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Job.Id, n.Key)
	}
	keys := strings.NewReplacer(names...)
	for _, n := range nodes {
		for i := range n.Job.WaitingFor {
			n.Job.WaitingFor[i].Message = keys.Replace(n.Job.WaitingFor[i].Message)
		}
	}
}

// nodeState is the status of a node's job, or why it does not count.
func nodeState(n client.WorkflowNode) string {
	switch {
	case n.SkippedAt != nil:
		return "SKIPPED"
	case n.Reused:
		return string(n.Job.Status) + ", reused"
	}
	return string(n.Job.Status)
}

// nodeReason says why a node waits or failed, or what it does.
func nodeReason(n client.WorkflowNode) string {
	switch job := n.Job; {
	case job.Status == client.JobStatusFailed:
		return progress.Cause(job.FailureClass, job.FailureReason)
	case job.Status.Terminal():
		return ""
	case len(job.WaitingFor) > 0:
		return output.Clean(job.WaitingFor[0].Message)
	}
	p := n.Job.Progress
	return progress.Describe(client.Progress{Phase: p.Phase, Message: p.Message, EtaSeconds: p.EtaSeconds})
}

func workflowsCancelCommand() *cobra.Command {
	var reason string
	call := &connect.Call{Kind: connect.WorkflowKind}
	cmd := call.Command(&cobra.Command{
		Use: "cancel WORKFLOW", Short: "Cancel all jobs of a workflow that have not ended", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		w, err := c.CancelWorkflow(ctx, args[0], reason)
		if err != nil {
			return nil, nil, err
		}
		if !w.Status.Terminal() {
			return w, output.Line("%s stops: %s still run.", w.Id, text.Count(w.Counts.Running, "job")), nil
		}
		return w, output.Line("%s is %s.", w.Id, strings.ToLower(string(w.Status))), nil
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why, which the workflow shows; up to 200 characters")
	return cmd
}

func workflowsRetryCommand() *cobra.Command {
	var fromScratch bool
	call := &connect.Call{Kind: connect.WorkflowKind}
	cmd := call.Command(&cobra.Command{
		Use: "retry WORKFLOW", Short: "Run the failed and cancelled nodes of a workflow again", Args: cobra.ExactArgs(1),
		Long: "Runs the nodes of a workflow again that failed or were cancelled, from their newest checkpoints. Those that completed stay.",
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		w, err := c.RetryWorkflow(ctx, args[0], fromScratch)
		if err != nil {
			return nil, nil, err
		}
		return w, output.Line("%s runs again: %s to go. Follow it with: reelay workflows show %s", w.Id,
			text.Count(w.Counts.Total-w.Counts.Completed-w.Counts.Skipped, "job"), w.Id), nil
	})
	cmd.Flags().BoolVar(&fromScratch, "from-scratch", false, "ignore the checkpoints")
	return cmd
}

func workflowsSkipCommand() *cobra.Command {
	call := &connect.Call{}
	return call.Command(&cobra.Command{
		Use: "skip WORKFLOW NODE…", Short: "Treat nodes of a workflow as completed",
		Long: "Lets the nodes that come after the given ones run as if these were completed. A node that waits is cancelled; one that\n" +
			"runs, has completed, or whose result another node uses, cannot be skipped. The audit log records it.",
		Example: "  reelay workflows skip wfl_01937d3e shots.s3",
		Args:    nodeArgs(2, "the id of a workflow and the keys of its nodes to skip, as `reelay workflows show` lists them"),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return changeNodes(ctx, c, args[0], args[1:], func(id, key string) (*client.Workflow, string, error) {
			w, err := c.SkipWorkflowJob(ctx, id, key)
			return w, "is skipped", err
		})
	})
}

func workflowsOverrideCommand() *cobra.Command {
	call := &connect.Call{}
	return call.Command(&cobra.Command{
		Use: "override WORKFLOW NODE PARENT…", Short: "Let a node of a workflow not wait for its parents any more",
		Long: "Lets a node not wait for the given ones that it comes after; it still waits for its others. A node that uses the result\n" +
			"of a parent must wait for it. The audit log records it.",
		Example: "  reelay workflows override wfl_01937d3e film shots.s3",
		Args:    nodeArgs(3, "the id of a workflow, the key of a node that waits, and the keys of the nodes for which it should not"),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		node := args[1]
		return changeNodes(ctx, c, args[0], args[2:], func(id, parent string) (*client.Workflow, string, error) {
			w, err := c.OverrideDependency(ctx, id, node, parent)
			return w, "does not hold up " + output.Clean(node) + " any more", err
		})
	})
}

// nodeArgs checks that there are at least so many arguments, which what describes.
func nodeArgs(least int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least {
			return fmt.Errorf("give %s", what)
		}
		return nil
	}
}

// changeNodes calls act for each of the keys, and stops at the first error. act returns the workflow
// as it is then, and what became of the node.
func changeNodes(
	ctx context.Context, c *client.Client, workflow string, keys []string, act func(id, key string) (*client.Workflow, string, error),
) (any, output.Printer, error) {
	id, err := connect.FullID(ctx, c, connect.WorkflowKind, workflow)
	if err != nil {
		return nil, nil, err
	}
	var w *client.Workflow
	var lines []string
	for _, key := range keys {
		now, what, err := act(id, key)
		if err != nil {
			return nil, nil, jobs.DoneBefore(key, lines, len(keys), err)
		}
		w, lines = now, append(lines, output.Clean(key)+" "+what)
	}
	return w, output.Line("%s", strings.Join(append(lines, "Follow the workflow with: reelay workflows show "+w.Id), "\n")), nil
}
