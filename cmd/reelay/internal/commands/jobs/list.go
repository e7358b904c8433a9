package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// ListOptions are the flags of `reelay list`.
type ListOptions struct {
	Status, Tier  []string
	Model, search string
}

// ListCommand returns `reelay list`.
func ListCommand() *cobra.Command {
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
	var o ListOptions
	var filter client.JobFilter
	cmd.PreRunE = func(cmd *cobra.Command, words []string) (err error) {
		if filter, err = o.Filter(words); err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Status, "status", nil, "only jobs in these states")
	f.StringSliceVar(&o.Tier, "tier", nil, "only jobs of these tiers")
	f.StringVar(&o.Model, "model", "", "only jobs of this model")
	f.StringVar(&o.search, "search", "", "only jobs that match this search, as SEARCH")
	list := &connect.Lister[listedJob]{Table: jobTable, Note: o.note}
	list.Ask = func(ctx context.Context, c *client.Client, p connect.Page) (output.List[listedJob], error) {
		if list.Output.Wide() {
			found, err := output.Page[client.ExplainedJob](c.JobsExplained(ctx, filter, p.First, p.After))
			return output.Map(found, func(j client.ExplainedJob) listedJob { return listedJob{j.ListedJob, j.WaitingFor} }), err
		}
		found, err := output.Page[client.ListedJob](c.Jobs(ctx, filter, p.First, p.After))
		return output.Map(found, func(j client.ListedJob) listedJob { return listedJob{ListedJob: j} }), err
	}
	return list.Command(cmd)
}

// quotedValue matches a value in quotation marks, with what is before it.
var quotedValue = regexp.MustCompile(`(^|[\s:,-])"[^"]*"`)

// note says what the words of a search match, if it has any: terms without a key.
func (o *ListOptions) note() string {
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
		return progress.Failure(&j.Job)
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

// Filter returns the filter of the flags and of the words of a search.
func (o *ListOptions) Filter(words []string) (f client.JobFilter, err error) {
	if len(words) > 0 && o.search != "" {
		return f, errors.New("the search is given twice, as arguments and with --search: use one of them")
	}
	o.search = cmp.Or(o.search, strings.Join(words, " "))
	if f.Status, err = input.ParseEnums("status", o.Status, client.AllJobStatus); err != nil {
		return f, err
	}
	if f.Tier, err = input.ParseEnums("tier", o.Tier, client.AllTier); err != nil {
		return f, err
	}
	if o.Model != "" {
		f.Model = &o.Model
	}
	if o.search != "" {
		f.Search = &o.search
	}
	return f, nil
}
