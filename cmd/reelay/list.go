package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

// listOptions is what `reelay list` may be told.
type listOptions struct {
	target       target
	status, tier []string
	model        string
	search       string
	page         page
	asJSON       bool
}

// page is which part of a list is shown.
type page struct {
	first int
	after string
}

func (p *page) addFlags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.first, "first", 50, "how many to show, 1 to 200")
	cmd.Flags().StringVar(&p.after, "after", "", "cursor that the page before ended with")
}

func (p *page) check() error {
	if p.first < 1 || p.first > 200 {
		return fmt.Errorf("--first is %d: it must be from 1 to 200", p.first)
	}
	return nil
}

// listed is one page as --json prints it.
type listed[T any] struct {
	Items       []T     `json:"items"`
	TotalCount  int     `json:"totalCount"`
	HasNextPage bool    `json:"hasNextPage"`
	EndCursor   *string `json:"endCursor"`
}

// printMore tells how to see the next page.
func (l listed[T]) printMore(out io.Writer) error {
	if !l.HasNextPage || l.EndCursor == nil {
		return nil
	}
	count := fmt.Sprint(l.TotalCount)
	if l.TotalCount > 10_000 {
		count = "more than 10000"
	}
	_, err := fmt.Fprintf(out, "%d of %s; the next with --after %s\n", len(l.Items), count, *l.EndCursor)
	return err
}

func listCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list [SEARCH]",
		Short: "List jobs, newest first",
		Long: "Lists jobs, newest first. SEARCH is words and key:value terms, all of which a job must meet: a word is the\n" +
			"beginning of an id, an idempotency key, or a value in the metadata; the keys are status, type, model, tier,\n" +
			"class, user, account, worker, age and waste. See docs/search.md.",
		Example: "  reelay list --status running,queued\n  reelay list 'status:failed -class:poison age:<1d'\n" +
			"  reelay list --first 200 --json | jq -r '.items[].id'",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) > 0 && o.search != "" {
				return &usageError{cmd, errors.New("a search is given both as arguments and with --search: give one")}
			}
			o.search = cmp.Or(o.search, strings.Join(words, " "))
			return o.run(cmd)
		},
	}
	o.target.addFlags(cmd)
	o.page.addFlags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&o.status, "status", nil, "only jobs in these states")
	f.StringSliceVar(&o.tier, "tier", nil, "only jobs of these tiers")
	f.StringVar(&o.model, "model", "", "only jobs of this model")
	f.StringVar(&o.search, "search", "", "only jobs that this search finds, as SEARCH")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON document")
	return cmd
}

func (o *listOptions) filter() (client.JobFilter, error) {
	var f client.JobFilter
	var err error
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
	return f, o.page.check()
}

func (o *listOptions) run(cmd *cobra.Command) error {
	filter, err := o.filter()
	if err != nil {
		return &usageError{cmd, err}
	}
	c, err := o.target.client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	found, err := c.Jobs(cmd.Context(), filter, o.page.first, o.page.after)
	if err != nil {
		return apiError(err)
	}
	list := listed[client.Job]{Items: []client.Job{}, TotalCount: found.TotalCount, HasNextPage: found.PageInfo.HasNextPage, EndCursor: found.PageInfo.EndCursor}
	for _, edge := range found.Edges {
		list.Items = append(list.Items, edge.Node)
	}
	if o.asJSON {
		return printJSON(cmd.OutOrStdout(), list)
	}
	var rows [][]string
	for _, job := range list.Items {
		rows = append(rows, []string{
			job.Id, string(job.Status), fmt.Sprintf("%.0f %%", job.Progress.Percent), job.Model, string(job.Tier),
			fmt.Sprint(job.AttemptNo), ago(&job.CreatedAt),
		})
	}
	if err := printTable(cmd.OutOrStdout(), []string{"JOB", "STATUS", "PROGRESS", "MODEL", "TIER", "ATTEMPTS", "CREATED"}, rows); err != nil {
		return err
	}
	return list.printMore(cmd.OutOrStdout())
}
