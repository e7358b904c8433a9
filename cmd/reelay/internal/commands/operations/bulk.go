package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/access"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// BulkCommand returns `reelay bulk`.
func BulkCommand() *cobra.Command {
	cmd := listBulk(&cobra.Command{
		Use:   "bulk",
		Short: "Act on all jobs that match a filter",
		Long:  "Lists the bulk operations, newest first. Its subcommands start, pause, resume and cancel them.",
		Args:  terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listBulk(&cobra.Command{Use: "list", Short: "List bulk operations, newest first", Args: cobra.NoArgs}),
		bulkStartCommand(),
		bulkAction("show", "Show a bulk operation and its first errors", (*client.Client).BulkOperation),
		bulkAction("pause", "Pause a bulk operation", (*client.Client).PauseBulk),
		bulkAction("resume", "Continue a paused bulk operation", (*client.Client).ResumeBulk),
		bulkAction("cancel", "End a bulk operation; the other jobs stay as they are", (*client.Client).CancelBulk))
	return cmd
}

func listBulk(cmd *cobra.Command) *cobra.Command {
	var open bool
	cmd.Flags().BoolVar(&open, "open", false, "only those that have not ended")
	list := &connect.Lister[client.BulkOperation]{
		Target: connect.Target{Operator: true}, Table: bulkTable,
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.BulkOperation], error) {
			return output.Page[client.BulkOperation](c.BulkOperations(ctx, open, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

var bulkTable = output.Table[client.BulkOperation]{
	Columns: []output.Column[client.BulkOperation]{
		{Title: "OPERATION", Kind: output.ID, Value: func(b client.BulkOperation) any { return b.Id }},
		{Title: "ACTION", Value: func(b client.BulkOperation) any { return BulkActionName(b) }},
		{Title: "STATE", Kind: output.State, Value: func(b client.BulkOperation) any { return BulkState(b) }},
		{Title: "JOBS", Value: func(b client.BulkOperation) any { return b.Matched }},
		{Title: "DONE", Value: func(b client.BulkOperation) any { return b.Done }},
		{Title: "FAILED", Value: func(b client.BulkOperation) any { return b.Failed }},
		{Title: "PER MIN", Wide: true, Value: func(b client.BulkOperation) any { return b.PerMinute }},
		{Title: "CANARY", Wide: true, Value: func(b client.BulkOperation) any { return b.Canary }},
		{Title: "CREATED", Value: func(b client.BulkOperation) any { return b.CreatedAt }},
	},
	Name: func(b client.BulkOperation) string { return b.Id },
	None: "No bulk operations.",
}

// BulkActionName returns the action of a bulk operation as its command names it.
func BulkActionName(b client.BulkOperation) string {
	name := strings.ReplaceAll(strings.ToLower(string(b.Action)), "_", "-")
	if b.Tier != nil {
		name += " " + strings.ToLower(string(*b.Tier))
	}
	if b.Priority != nil {
		name += " " + strconv.Itoa(*b.Priority)
	}
	return name
}

// BulkState returns whether a bulk operation runs, is paused or has ended.
func BulkState(b client.BulkOperation) string {
	switch {
	case b.FinishedAt != nil:
		return "done"
	case b.Paused && b.Canary > 0 && !b.CanaryOver && b.Failed > 0:
		return "paused: the canary failed"
	case b.Paused:
		return "paused"
	case b.Canary > 0 && !b.CanaryOver:
		return "running the canary"
	}
	return "running"
}

const bulkActionNames = "cancel, retry, redrive, delete, set-tier or set-priority"

// bulkOptions are the flags of `reelay bulk start`.
type bulkOptions struct {
	jobs.ListOptions
	ids               []string
	account           string
	perMinute, canary int
	dryRun, all       bool
	to                string
	yes               terminal.YesFlag
}

func bulkStartCommand() *cobra.Command {
	var o bulkOptions
	call := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := &cobra.Command{
		Use:   "start ACTION [SEARCH]",
		Short: "Cancel, retry, redrive, delete, or change the tier or priority of many jobs",
		Long: "Does something to every job that matches now, at most 100,000: cancel, retry, redrive, delete, set-tier or\n" +
			"set-priority. It counts the jobs first and asks; without a terminal it needs --yes. Jobs whose status rules the\n" +
			"action out are left out. SEARCH and the flags are those of reelay list.",
		Example: "  reelay bulk start cancel --status queued,scheduled 'user:u42' --dry-run\n" +
			"  reelay bulk start retry 'status:failed class:worker_lost age:<1d' --canary 5 --yes\n" +
			"  reelay bulk start set-tier --to batch --status queued --account acme\n" +
			"  reelay bulk start set-priority --to 50 'user:u42 status:queued'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("give an action: " + bulkActionNames)
			}
			_, err := parseBulkAction(args[0])
			return err
		},
	}
	cmd.ValidArgs = []string{"cancel", "retry", "redrive", "delete", "set-tier", "set-priority"}
	f := cmd.Flags()
	f.StringSliceVar(&o.Status, "status", nil, "only jobs in these states")
	f.StringSliceVar(&o.Tier, "tier", nil, "only jobs of these tiers")
	f.StringVar(&o.Model, "model", "", "only jobs of this model")
	f.StringVar(&o.account, "account", "", "only jobs of the account with this name or id")
	f.StringSliceVar(&o.ids, "job", nil, "only these jobs, at most 5000; may be repeated")
	f.StringVar(&o.to, "to", "", "the tier of set-tier, or the priority of set-priority, -100 to 100")
	f.IntVar(&o.perMinute, "per-minute", 0, "how many jobs per minute, 1 to 60000")
	f.IntVar(&o.canary, "canary", 0, "how many go first; the others follow only if all of them succeed")
	f.BoolVar(&o.all, "all", false, "all jobs, without a filter")
	f.BoolVar(&o.dryRun, "dry-run", false, "only count the jobs")
	o.yes.AddFlag(cmd)
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return o.start(ctx, c, cmd, args)
	})
}

func parseBulkAction(name string) (client.BulkAction, error) {
	for _, action := range client.AllBulkAction {
		if strings.EqualFold(strings.ReplaceAll(name, "-", "_"), string(action)) {
			return action, nil
		}
	}
	return "", fmt.Errorf("there is no action %q: it must be %s", name, bulkActionNames)
}

// input reads the flags and arguments.
func (o *bulkOptions) input(ctx context.Context, c *client.Client, args []string) (in client.BulkInput, err error) {
	if in.Action, err = parseBulkAction(args[0]); err != nil {
		return in, err
	}
	filter, err := o.Filter(args[1:])
	if err != nil {
		return in, err
	}
	if o.account != "" {
		account, err := access.AccountID(ctx, c, o.account)
		if err != nil {
			return in, err
		}
		filter.AccountId = &account
	}
	if in.IDs, err = connect.FullIDs(ctx, c, "job", o.ids); err != nil {
		return in, err
	}
	narrow := len(filter.Status) > 0 || len(filter.Tier) > 0 || filter.Model != nil || filter.Search != nil || filter.AccountId != nil
	if !narrow && len(in.IDs) == 0 && !o.all {
		return in, errors.New("say which jobs: with a search, --status, --tier, --model, --account or --job; or all of them with --all")
	}
	if narrow || o.all {
		in.Filter = &filter
	}
	if err := o.readTo(&in); err != nil {
		return in, err
	}
	in.PerMinute, in.Canary, in.Eligible, in.Key = o.perMinute, o.canary, true, "cli-"+uuid.NewString()
	return in, nil
}

// readTo reads --to, which set-tier and set-priority need.
func (o *bulkOptions) readTo(in *client.BulkInput) (err error) {
	switch {
	case in.Action == client.BulkActionSetTier && o.to != "":
		in.Tier, err = input.ParseEnum("to", o.to, client.AllTier)
	case in.Action == client.BulkActionSetTier:
		err = errors.New("set-tier needs the new tier: --to pro")
	case in.Action == client.BulkActionSetPriority && o.to != "":
		if err = jobs.ValidPriority(o.to); err == nil {
			var priority int
			priority, err = strconv.Atoi(o.to)
			in.Priority = &priority
		}
	case in.Action == client.BulkActionSetPriority:
		err = errors.New("set-priority needs the new priority, from -100 to 100: --to 50")
	case o.to != "":
		err = errors.New("--to goes with set-tier and set-priority only: leave it out")
	}
	return err
}

func (o *bulkOptions) start(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) (any, output.Printer, error) {
	in, err := o.input(ctx, c, args)
	if err != nil {
		return nil, nil, terminal.UsageError(cmd, err)
	}
	counted, err := c.StartBulk(ctx, in, true)
	if err != nil {
		return nil, nil, err
	}
	count := text.Count(counted.Matched, "job") + skipped(counted)
	if o.dryRun {
		return counted, output.Line("%s: %s. Nothing was done.", BulkActionName(*counted), count), nil
	}
	if counted.Matched == 0 {
		return nil, nil, fmt.Errorf("there is nothing to do: %s", count)
	}
	verb := strings.ReplaceAll(BulkActionName(*counted), "-", " ")
	if err := o.yes.Insist(cmd, fmt.Sprintf("%s %s?", strings.ToUpper(verb[:1])+verb[1:], count)); err != nil {
		return nil, nil, err
	}
	started, err := c.StartBulk(ctx, in, false)
	if err != nil {
		return nil, nil, err
	}
	return started, output.Line("%s is started: %s. Follow it with: reelay bulk show %s", started.Id, text.Count(started.Matched, "job"),
		started.Id), nil
}

// skipped says which jobs a bulk operation leaves out.
func skipped(b *client.BulkOperation) string {
	var parts []string
	for _, s := range b.Skips {
		n := strconv.Itoa(s.Jobs)
		if s.More {
			n += " or more"
		}
		parts = append(parts, n+" "+strings.ToLower(string(s.Status)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (left out: " + strings.Join(parts, ", ") + ")"
}

func bulkAction(verb, short string, do func(*client.Client, context.Context, string) (*client.BulkOperation, error)) *cobra.Command {
	call := &connect.Call{Kind: "bulk", Target: connect.Target{Operator: true}}
	return call.Command(&cobra.Command{
		Use:   verb + " OPERATION",
		Short: short,
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		b, err := do(c, ctx, args[0])
		return b, func(out io.Writer) error { return printBulk(out, b) }, err
	})
}

func printBulk(out io.Writer, b *client.BulkOperation) error {
	if err := bulkTable.Write(output.ScreenOf(out), []client.BulkOperation{*b}); err != nil || len(b.Errors) == 0 {
		return err
	}
	fmt.Fprintln(out)
	var rows [][]string
	for _, e := range b.Errors {
		rows = append(rows, []string{strings.Join(e.Field, ", "), e.Code, e.Message})
	}
	return output.WriteRows(out, []string{"JOB", "CODE", "ERROR"}, rows)
}
