package main

import (
	"context"
	"fmt"
	"io"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

// page selects the part of a list to show.
type page struct {
	first int
	after string
}

// lister is a command that shows one page of a list. ask fetches the page; row formats
// an item as a line of the table.
type lister[T any] struct {
	target target
	header []string
	row    func(T) []string
	// none returns the message for an empty list. It may be nil.
	none   func() string
	ask    func(ctx context.Context, c *client.Client, p page) (listed[T], error)
	page   page
	asJSON bool
}

func (l *lister[T]) command(cmd *cobra.Command) *cobra.Command {
	l.target.addFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&l.page.first, "first", 50, "number of items to show, 1 to 200")
	f.StringVar(&l.page.after, "after", "", "cursor at the end of the previous page")
	f.BoolVar(&l.asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return l.run(cmd) }
	return cmd
}

func (l *lister[T]) run(cmd *cobra.Command) error {
	if l.page.first < 1 || l.page.first > 200 {
		return &usageError{cmd, fmt.Errorf("--first is %d: it must be from 1 to 200", l.page.first)}
	}
	c, err := l.target.client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	list, err := l.ask(cmd.Context(), c, l.page)
	if err != nil {
		return apiError(err)
	}
	if l.asJSON {
		return printJSON(cmd.OutOrStdout(), list)
	}
	var rows [][]string
	for _, item := range list.Items {
		rows = append(rows, l.row(item))
	}
	if err := printTable(cmd.OutOrStdout(), l.header, rows); err != nil {
		return err
	}
	if l.none != nil && len(list.Items) == 0 && !list.HasNextPage {
		fmt.Fprintln(cmd.ErrOrStderr(), l.none())
	}
	return list.printMore(cmd.OutOrStdout())
}

// items is a complete list as --json prints it; see listed for a page.
type items[T any] struct {
	Items []T `json:"items"`
}

// listed is one page as --json prints it.
type listed[T any] struct {
	Items       []T     `json:"items"`
	TotalCount  *int    `json:"totalCount,omitempty"` // only for lists with a count
	HasNextPage bool    `json:"hasNextPage"`
	EndCursor   *string `json:"endCursor"`
}

// listOf converts a page from the client, if err is nil.
func listOf[T, E any, N interface {
	*E
	GetNode() T
}, P interface {
	GetEdges() []E
	GetPageInfo() client.PageInfo
}](found P, err error) (listed[T], error) {
	list := listed[T]{Items: []T{}}
	if err != nil {
		return list, err
	}
	edges, info := found.GetEdges(), found.GetPageInfo()
	for i := range edges {
		list.Items = append(list.Items, N(&edges[i]).GetNode())
	}
	list.HasNextPage, list.EndCursor = info.HasNextPage, info.EndCursor
	if counted, ok := any(found).(interface{ GetTotalCount() int }); ok {
		list.TotalCount = new(counted.GetTotalCount())
	}
	return list, nil
}

// printMore prints how to show the next page.
func (l listed[T]) printMore(out io.Writer) error {
	if !l.HasNextPage || l.EndCursor == nil {
		return nil
	}
	count := ""
	if l.TotalCount != nil && *l.TotalCount > 10_000 {
		count = " of more than 10000"
	} else if l.TotalCount != nil {
		count = fmt.Sprintf(" of %d", *l.TotalCount)
	}
	_, err := fmt.Fprintf(out, "%d%s; next page: --after %s\n", len(l.Items), count, *l.EndCursor)
	return err
}
