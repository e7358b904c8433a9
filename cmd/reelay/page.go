package main

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

// page selects the part of a list to show.
type page struct {
	first int
	after string
}

// lister is a command that shows a list, or one page of it. ask fetches it; table shows it.
type lister[T any] struct {
	target target
	table  output.Table[T]
	// note returns a further remark on an empty list. It may be nil.
	note func() string
	// whole means that the list has no pages.
	whole bool
	ask   func(ctx context.Context, c *client.Client, p page) (output.List[T], error)
	// document returns what JSON has of the list, if that is more than the list. It may be nil.
	document func(output.List[T]) any
	page     page
	output   output.Options
	watch    watchFlag
}

func (l *lister[T]) command(cmd *cobra.Command) *cobra.Command {
	l.target.addFlags(cmd)
	f := cmd.Flags()
	if !l.whole {
		f.IntVar(&l.page.first, "first", 50, "number of items to show, 1 to 200")
		f.StringVar(&l.page.after, "after", "", "cursor at the end of the previous page")
	}
	l.output.AddFlags(cmd)
	l.watch.addFlag(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return l.run(cmd) }
	return cmd
}

func (l *lister[T]) run(cmd *cobra.Command) error {
	if err := l.check(); err != nil {
		return &usageError{cmd, err}
	}
	c, err := l.target.client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if l.watch.every > 0 {
		return l.watch.run(cmd, &l.output, func(ctx context.Context, s *output.Screen) error { return l.show(ctx, c, s, s) })
	}
	return l.show(cmd.Context(), c, l.output.Screen(cmd, cmd.OutOrStdout()), l.output.Screen(cmd, cmd.ErrOrStderr()))
}

func (l *lister[T]) check() error {
	if !l.whole && (l.page.first < 1 || l.page.first > 200) {
		return fmt.Errorf("--first is %d: it must be from 1 to 200", l.page.first)
	}
	return l.output.Check()
}

// show fetches the list and prints it.
func (l *lister[T]) show(ctx context.Context, c *client.Client, s, remarks *output.Screen) error {
	list, err := l.ask(ctx, c, l.page)
	if err != nil {
		return l.target.explain(err)
	}
	table := l.table
	if l.note != nil {
		table.None = joinNote(table.None, l.note())
	}
	var answer any = list
	if l.document != nil {
		answer = l.document(list)
	}
	return output.Show(&l.output, s, remarks, &table, &list, answer)
}

// joinNote adds a remark to a sentence.
func joinNote(sentence, note string) string {
	if note == "" {
		return sentence
	}
	return sentence + " " + note
}
