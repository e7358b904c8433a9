package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

// listOptions are the flags of `reelay list`.
type listOptions struct {
	status, tier  []string
	model, search string
}

func listCommand() *cobra.Command {
	return listJobs(&cobra.Command{
		Use:        "list [SEARCH]",
		SuggestFor: []string{"ls", "ps", "jobs"},
		Short:      "List jobs, newest first",
		Long: "Lists jobs, newest first. SEARCH consists of words and key:value terms; a job must match all of them. A word\n" +
			"matches the beginning of an id, an idempotency key, or a value in the metadata; the keys are status, type, model, tier,\n" +
			"class, user, account, worker, schedule, age and waste. Prompts are not searched. See docs/users/search.md.",
		Example: "  reelay list --status running,queued\n  reelay list 'status:failed -class:poison age:<1d'\n" +
			"  reelay list --first 200 --json | jq -r '.items[].id'",
		Args: cobra.ArbitraryArgs,
	})
}

// listJobs completes a command that lists jobs.
func listJobs(cmd *cobra.Command) *cobra.Command {
	var o listOptions
	var filter client.JobFilter
	cmd.PreRunE = func(cmd *cobra.Command, words []string) (err error) {
		if filter, err = o.filter(words); err != nil {
			return &usageError{cmd, err}
		}
		return nil
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.status, "status", nil, "only jobs in these states")
	f.StringSliceVar(&o.tier, "tier", nil, "only jobs of these tiers")
	f.StringVar(&o.model, "model", "", "only jobs of this model")
	f.StringVar(&o.search, "search", "", "only jobs that match this search, as SEARCH")
	list := &lister[listedJob]{table: jobTable, note: o.note}
	list.ask = func(ctx context.Context, c *client.Client, p page) (output.List[listedJob], error) {
		if list.output.Wide() {
			found, err := output.Page[client.ExplainedJob](c.JobsExplained(ctx, filter, p.first, p.after))
			return output.Map(found, func(j client.ExplainedJob) listedJob { return listedJob{j.ListedJob, j.WaitingFor} }), err
		}
		found, err := output.Page[client.ListedJob](c.Jobs(ctx, filter, p.first, p.after))
		return output.Map(found, func(j client.ListedJob) listedJob { return listedJob{ListedJob: j} }), err
	}
	return list.command(cmd)
}

// quotedValue matches a value in quotation marks, with what is before it.
var quotedValue = regexp.MustCompile(`(^|[\s:,-])"[^"]*"`)

// note says what the words of a search match, if it has any: terms without a key.
func (o *listOptions) note() string {
	for term := range strings.FieldsSeq(quotedValue.ReplaceAllString(o.search, "${1}x")) {
		if !strings.Contains(term, ":") {
			return "Words match ids, idempotency keys and metadata values. Prompts are encrypted and cannot be searched."
		}
	}
	return ""
}

// listedJob is a row of the table of jobs.
type listedJob struct {
	client.ListedJob
	// why are the reasons why it waits. They are only asked for with --output wide.
	why []client.WaitingReason
}

var jobTable = output.Table[listedJob]{
	Columns: []output.Column[listedJob]{
		{Title: "JOB", Kind: output.ID, Value: func(j listedJob) any { return j.Id }},
		{Title: "STATUS", Kind: output.State, Value: jobState},
		{Title: "DONE", Minor: true, Value: func(j listedJob) any { return fmt.Sprintf("%.0f %%", j.Progress.Percent) }},
		{Title: "MODEL", Minor: true, Value: func(j listedJob) any { return j.Model }},
		{Title: "TIER", Minor: true, Value: func(j listedJob) any { return j.Tier }},
		{Title: "ATTEMPTS", Wide: true, Value: func(j listedJob) any { return j.AttemptNo }},
		{Title: "CREATED", Value: func(j listedJob) any { return j.CreatedAt }},
		{Title: "ACCOUNT", Wide: true, Value: func(j listedJob) any { return j.Account.Name }},
		{Title: "USER", Wide: true, Value: func(j listedJob) any { return j.UserId }},
		{Title: "IDEMPOTENCY KEY", Wide: true, Value: func(j listedJob) any { return j.IdempotencyKey }},
		{Title: "REASON", Kind: output.Long, Wide: true, Value: jobReason},
		{Title: "PROMPT", Kind: output.Long, Value: jobPrompt},
	},
	Name: func(j listedJob) string { return j.Id },
	None: "No jobs found.",
}

func jobState(j listedJob) any {
	if j.DeletedAt != nil {
		return string(j.Status) + ", deleted"
	}
	return string(j.Status)
}

// jobReason is why a job waits, failed or was cancelled.
func jobReason(j listedJob) any {
	switch {
	case j.Status == client.JobStatusFailed:
		return failure(&j.Job)
	case j.Status == client.JobStatusCancelled && j.Cancellation != nil:
		return j.Cancellation.Reason
	case len(j.why) > 0:
		return j.why[0].Message
	}
	return nil
}

// jobPrompt is the prompt of a job, or why it has none.
func jobPrompt(j listedJob) any {
	if j.DeletedAt != nil {
		return "(deleted)"
	}
	return j.Prompt
}

func (o *listOptions) filter(words []string) (f client.JobFilter, err error) {
	if len(words) > 0 && o.search != "" {
		return f, errors.New("the search is given twice, as arguments and with --search: use one of them")
	}
	o.search = cmp.Or(o.search, strings.Join(words, " "))
	if f.Status, err = parseEnums("status", o.status, client.AllJobStatus); err != nil {
		return f, err
	}
	if f.Tier, err = parseEnums("tier", o.tier, client.AllTier); err != nil {
		return f, err
	}
	if o.model != "" {
		f.Model = &o.model
	}
	if o.search != "" {
		f.Search = &o.search
	}
	return f, nil
}
