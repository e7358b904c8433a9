package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/jobs/query"
	"github.com/spf13/cobra"
)

// listOptions are the flags of `reelay list`.
type listOptions struct {
	status, tier  []string
	model, search string
}

func listCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:        "list [SEARCH]",
		SuggestFor: []string{"ls", "ps", "jobs"},
		Short:      "List jobs, newest first",
		Long: "Lists jobs, newest first. SEARCH consists of words and key:value terms; a job must match all of them. A word\n" +
			"matches the beginning of an id, an idempotency key, or a value in the metadata; the keys are status, type, model, tier,\n" +
			"class, user, account, worker, age and waste. Prompts are not searched. See docs/users/search.md.",
		Example: "  reelay list --status running,queued\n  reelay list 'status:failed -class:poison age:<1d'\n" +
			"  reelay list --first 200 --json | jq -r '.items[].id'",
		Args: cobra.ArbitraryArgs,
	}
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
	list := &lister[client.Job]{
		header: []string{"JOB", "STATUS", "PROGRESS", "MODEL", "TIER", "ATTEMPTS", "CREATED"},
		row: func(job client.Job) []string {
			status := string(job.Status)
			if job.DeletedAt != nil {
				status += ", deleted"
			}
			return []string{
				job.Id, status, fmt.Sprintf("%.0f %%", job.Progress.Percent), job.Model, string(job.Tier),
				fmt.Sprint(job.AttemptNo), ago(&job.CreatedAt),
			}
		},
		none: o.none,
		ask: func(ctx context.Context, c *client.Client, p page) (listed[client.Job], error) {
			return listOf[client.Job](c.Jobs(ctx, filter, p.first, p.after))
		},
	}
	return list.command(cmd)
}

// none returns the message for an empty list, with a note on what the words of the search
// match.
func (o *listOptions) none() string {
	text := "No jobs found."
	if search, err := query.ParseSearch(o.search); err == nil {
		text = strings.TrimSpace(text + " " + search.Note())
	}
	return text
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
