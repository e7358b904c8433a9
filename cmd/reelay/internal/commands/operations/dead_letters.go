package operations

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// deadLetterFlags select dead letters.
type deadLetterFlags struct {
	fingerprint, class, model, audience string
	resolved                            bool
}

func (l *deadLetterFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.fingerprint, "fingerprint", "", "only those with this cause")
	f.StringVar(&l.class, "class", "", "only those of this class of failure, such as poison")
	f.StringVar(&l.model, "model", "", "only those of this model")
	f.StringVar(&l.audience, "audience", "", "who must act: operator, customer or all (default: operator; all with --fingerprint or --class)")
}

func (l *deadLetterFlags) filter() (f client.DeadLetterFilter, err error) {
	f = client.DeadLetterFilter{Fingerprint: l.fingerprint, Model: l.model, Resolved: l.resolved}
	if l.class != "" {
		if f.Class, err = input.ParseEnum("class", l.class, client.AllFailureClass); err != nil {
			return f, err
		}
	}
	switch {
	case l.audience == "":
	case strings.EqualFold(l.audience, "all"):
		f.Audience = client.AllDeadLetterAudience
	default:
		audience, err := input.ParseEnum("audience", l.audience, client.AllDeadLetterAudience)
		if err != nil {
			return f, err
		}
		f.Audience = []client.DeadLetterAudience{audience}
	}
	return f, nil
}

// DeadLettersCommand returns `reelay dead-letters`.
func DeadLettersCommand() *cobra.Command {
	cmd := groupDeadLetters(&cobra.Command{
		Use:   "dead-letters",
		Short: "Show, redrive and discard jobs that failed for good (for operators)",
		Long: "Shows the causes of the dead letters that operators must act on, the most frequent first. See\n" +
			"docs/operators/dead-letters.md. `list` shows them one by one.",
		Example: "  reelay dead-letters\n  reelay dead-letters list --fingerprint 5f2a…\n" +
			"  reelay dead-letters redrive --fingerprint 5f2a… --canary 1",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listDeadLetters(&cobra.Command{Use: "list", Short: "List dead letters, newest first", Args: cobra.NoArgs}),
		groupDeadLetters(&cobra.Command{Use: "groups", Short: "Show the causes of dead letters, the most frequent first", Args: cobra.NoArgs}),
		deadLettersShowCommand(), deadLettersRedriveCommand(), deadLettersDiscardCommand())
	return cmd
}

func listDeadLetters(cmd *cobra.Command) *cobra.Command {
	var flags deadLetterFlags
	var filter client.DeadLetterFilter
	flags.addFlags(cmd)
	cmd.Flags().BoolVar(&flags.resolved, "resolved", false, "the resolved ones instead of the open ones")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if filter, err = flags.filter(); err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	list := &connect.Lister[client.DeadLetter]{
		Target: connect.Target{Operator: true}, Table: deadLetterTable,
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.DeadLetter], error) {
			return output.Page[client.DeadLetter](c.DeadLetters(ctx, filter, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

var deadLetterTable = output.Table[client.DeadLetter]{
	Columns: []output.Column[client.DeadLetter]{
		{Title: "DEAD LETTER", Kind: output.ID, Value: func(d client.DeadLetter) any { return d.Id }},
		{Title: "JOB", Kind: output.ID, Value: func(d client.DeadLetter) any { return d.Job.Id }},
		{Title: "CLASS", Value: func(d client.DeadLetter) any { return d.FailureClass }},
		{Title: "MODEL", Value: func(d client.DeadLetter) any { return d.Model }},
		{Title: "ATTEMPTS", Wide: true, Value: func(d client.DeadLetter) any { return d.Attempts }},
		{Title: "FINGERPRINT", Wide: true, Value: func(d client.DeadLetter) any { return d.Fingerprint }},
		{Title: "CREATED", Value: func(d client.DeadLetter) any { return d.CreatedAt }},
		{Title: "STATE", Kind: output.State, Wide: true, Value: func(d client.DeadLetter) any { return deadLetterState(d) }},
		{Title: "REASON", Kind: output.Long, Value: func(d client.DeadLetter) any { return d.Reason }},
	},
	Name: func(d client.DeadLetter) string { return d.Id },
	None: "No dead letters.",
}

func deadLetterState(d client.DeadLetter) string {
	if d.Resolution == nil {
		return "open"
	}
	state := strings.ToLower(*d.Resolution)
	if d.ResolvedBy != nil {
		state += " by " + *d.ResolvedBy
	}
	return state
}

func groupDeadLetters(cmd *cobra.Command) *cobra.Command {
	var flags deadLetterFlags
	cmd.Flags().StringVar(&flags.audience, "audience", "", "who must act: operator, customer or all (default: operator)")
	cmd.Flags().BoolVar(&flags.resolved, "resolved", false, "of the resolved ones instead of the open ones")
	list := &connect.Lister[client.DeadLetterGroup]{
		Target: connect.Target{Operator: true}, Whole: true,
		Table: output.Table[client.DeadLetterGroup]{
			Columns: []output.Column[client.DeadLetterGroup]{
				{Title: "FINGERPRINT", Value: func(g client.DeadLetterGroup) any { return g.Fingerprint }},
				{Title: "COUNT", Value: func(g client.DeadLetterGroup) any { return g.Count }},
				{Title: "CLASS", Value: func(g client.DeadLetterGroup) any { return g.FailureClass }},
				{Title: "MODEL", Value: func(g client.DeadLetterGroup) any { return g.Model }},
				{Title: "FIRST", Wide: true, Value: func(g client.DeadLetterGroup) any { return g.FirstAt }},
				{Title: "LAST", Value: func(g client.DeadLetterGroup) any { return g.LastAt }},
				{Title: "REASON", Kind: output.Long, Value: func(g client.DeadLetterGroup) any { return g.Reason }},
			},
			Name: func(g client.DeadLetterGroup) string { return g.Fingerprint },
			None: "No dead letters.",
		},
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (list output.List[client.DeadLetterGroup], err error) {
			filter, err := flags.filter()
			if err != nil {
				return list, err
			}
			return output.Complete(c.DeadLetterGroups(ctx, filter.Audience, filter.Resolved))
		},
	}
	return list.Command(cmd)
}

func deadLettersShowCommand() *cobra.Command {
	show := &connect.Call{Target: connect.Target{Operator: true}, Kind: "dead"}
	return show.Command(&cobra.Command{
		Use:   "show DEAD-LETTER",
		Short: "Show one dead letter, with the job's prompt",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		d, err := c.DeadLetter(ctx, args[0])
		return d, func(out io.Writer) error { return printDeadLetter(out, d) }, err
	})
}

func printDeadLetter(to io.Writer, d *client.DeadLetter) error {
	out := bufio.NewWriter(to)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-13s%s\n", name, output.Clean(fmt.Sprintf(format, args...)))
	}
	field("dead letter", "%s", d.Id)
	field("state", "%s", deadLetterState(*d))
	if d.Note != nil && *d.Note != "" {
		field("note", "%s", *d.Note)
	}
	field("job", "%s, %s now, run %d", d.Job.Id, d.Job.Status, d.Run)
	field("model", "%s  %s", d.Model, d.Job.Params)
	if d.Job.Prompt != nil {
		field("prompt", "%s", output.Clip(*d.Job.Prompt, 2000))
	}
	field("why", "%s: %s", d.FailureClass, d.Reason)
	field("fingerprint", "%s", d.Fingerprint)
	field("attempts", "%d", d.Attempts)
	field("to act", "%s", strings.ToLower(string(d.Audience)))
	field("created", "%s", output.Moment(d.CreatedAt))
	if d.Log != nil {
		field("log", "%s; print it with `reelay logs %s`", output.Size(d.Log.SizeBytes), d.Job.Id)
	}
	return out.Flush()
}

// redriveOptions are the flags of `reelay dead-letters redrive`.
type redriveOptions struct {
	deadLetterFlags
	params, prompt           string
	limit, perMinute, canary int
	yes                      terminal.YesFlag
}

func deadLettersRedriveCommand() *cobra.Command {
	var o redriveOptions
	call := &connect.Call{Target: connect.Target{Operator: true}, Kind: "dead"}
	cmd := &cobra.Command{
		Use:   "redrive DEAD-LETTER | --fingerprint F | --class C",
		Short: "Run the jobs of dead letters again",
		Long: "Starts the next run of a dead letter's job, in the lane CRITICAL: from the newest checkpoint, or from scratch with\n" +
			"other --params or another --prompt. Without an id it redrives all dead letters of a cause, class or model as a\n" +
			"bulk operation; --canary sends some ahead, and the others only if these succeed.",
		Example: "  reelay dead-letters redrive dead_01937d3e --params '{\"durationSeconds\": 4}'\n" +
			"  reelay dead-letters redrive --fingerprint 5f2a… --canary 1 --per-minute 60",
		Args: cobra.MaximumNArgs(1),
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.params, "params", "", "all parameters of the next run as a JSON object, or @file; of one dead letter")
	f.StringVar(&o.prompt, "prompt", "", "the prompt of the next run; of one dead letter")
	f.IntVar(&o.limit, "limit", 1000, "at most this many, 1 to 10000, the oldest first")
	f.IntVar(&o.perMinute, "per-minute", 0, "how many per minute (default 600)")
	f.IntVar(&o.canary, "canary", 0, "how many go first; the others follow only if all of them succeed")
	o.yes.AddFlag(cmd)
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if len(args) == 1 {
			return o.one(ctx, c, cmd, args[0])
		}
		return o.many(ctx, c, cmd)
	})
}

func (o *redriveOptions) one(ctx context.Context, c *client.Client, cmd *cobra.Command, id string) (any, output.Printer, error) {
	params, err := input.ParseFields(o.params, nil, cmd.InOrStdin())
	if err != nil {
		return nil, nil, fmt.Errorf("--params cannot be read: %w", err)
	}
	var raw json.RawMessage
	if message := params.Message(); message != nil {
		raw = *message
	}
	job, err := c.RedriveDeadLetter(ctx, id, raw, o.prompt)
	if err != nil {
		return nil, nil, err
	}
	return job, output.Line("%s runs again; follow it with: reelay watch %s", job.Id, job.Id), nil
}

func (o *redriveOptions) many(ctx context.Context, c *client.Client, cmd *cobra.Command) (any, output.Printer, error) {
	filter, err := o.filter()
	switch {
	case err != nil:
		return nil, nil, err
	case o.fingerprint == "" && o.class == "" && o.model == "":
		return nil, nil, terminal.UsageError(cmd, errors.New("name a dead letter, or select some with --fingerprint, --class or --model"))
	case o.params != "" || o.prompt != "":
		return nil, nil, terminal.UsageError(cmd, errors.New("--params and --prompt are for one dead letter: name it"))
	}
	found, err := c.DeadLetters(ctx, filter, 1, "")
	if err != nil {
		return nil, nil, err
	}
	if found.TotalCount == 0 {
		return nil, nil, errors.New("there are no such dead letters")
	}
	if err := o.yes.Insist(cmd, fmt.Sprintf("Redrive %s?", text.Count(min(found.TotalCount, o.limit), "dead letter"))); err != nil {
		return nil, nil, err
	}
	n, err := c.RedriveDeadLetters(ctx, filter, o.limit, o.perMinute, o.canary)
	return map[string]int{"jobs": n}, output.Line("%s will be redriven; `reelay bulk list` shows the progress", text.Count(n, "job")), err
}

func deadLettersDiscardCommand() *cobra.Command {
	var note, fingerprint string
	var yes terminal.YesFlag
	cmd := &cobra.Command{
		Use:     "discard DEAD-LETTER | --fingerprint F",
		Short:   "Resolve dead letters without another run",
		Example: "  reelay dead-letters discard dead_01937d3e --note 'the customer was refunded'",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (fingerprint != "") || len(args) > 1 {
				return errors.New("give the id of one dead letter, or --fingerprint for all with that cause")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for other operators")
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "all dead letters with this cause")
	yes.AddFlag(cmd)
	call := &connect.Call{Target: connect.Target{Operator: true}, Kind: "dead"}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if len(args) == 1 {
			d, err := c.DiscardDeadLetter(ctx, args[0], note)
			return d, output.Line("%s is discarded", args[0]), err
		}
		found, err := c.DeadLetters(ctx, client.DeadLetterFilter{Fingerprint: fingerprint}, 1, "")
		if err != nil {
			return nil, nil, err
		}
		if err := yes.Insist(cmd, fmt.Sprintf("Discard %s?", text.Count(found.TotalCount, "dead letter"))); err != nil {
			return nil, nil, err
		}
		n, err := c.DiscardDeadLetters(ctx, fingerprint, note)
		return map[string]int{"discarded": n}, output.Line("Discarded %s.", text.Count(n, "dead letter")), err
	})
}
