package connect

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// Page selects the part of a list to show.
type Page struct {
	First int
	After string
}

// Lister is a command that shows a list, or one page of it. ask fetches it; table shows it.
type Lister[T any] struct {
	Target Target
	Table  output.Table[T]
	// Note returns a further remark on an empty list. It may be nil.
	Note func() string
	// Whole means that the list has no pages.
	Whole bool
	Ask   func(ctx context.Context, c *client.Client, p Page) (output.List[T], error)
	// Document returns what JSON has of the list, if that is more than the list. It may be nil.
	Document func(output.List[T]) any
	page     Page
	Output   output.Options
	watch    WatchFlag
}

// Command completes cmd with the flags of a list, and with what shows it.
func (l *Lister[T]) Command(cmd *cobra.Command) *cobra.Command {
	l.Target.AddFlags(cmd)
	f := cmd.Flags()
	if !l.Whole {
		f.IntVar(&l.page.First, "first", 50, "number of items to show, 1 to 200")
		f.StringVar(&l.page.After, "after", "", "cursor at the end of the previous page")
	}
	l.Output.AddFlags(cmd)
	l.watch.AddFlag(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return l.run(cmd) }
	return cmd
}

func (l *Lister[T]) run(cmd *cobra.Command) error {
	if err := l.check(); err != nil {
		return terminal.UsageError(cmd, err)
	}
	c, err := l.Target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if l.watch.Every > 0 {
		return l.watch.Run(cmd, &l.Output, func(ctx context.Context, s *output.Screen) error { return l.show(ctx, c, s, s) })
	}
	return l.show(cmd.Context(), c, l.Output.Screen(cmd, cmd.OutOrStdout()), l.Output.Screen(cmd, cmd.ErrOrStderr()))
}

func (l *Lister[T]) check() error {
	if !l.Whole && (l.page.First < 1 || l.page.First > 200) {
		return fmt.Errorf("--first is %d: it must be from 1 to 200", l.page.First)
	}
	return l.Output.Check()
}

// show fetches the list and prints it.
func (l *Lister[T]) show(ctx context.Context, c *client.Client, s, remarks *output.Screen) error {
	list, err := l.Ask(ctx, c, l.page)
	if err != nil {
		return l.Target.Explain(err)
	}
	table := l.Table
	if l.Note != nil {
		table.None = joinNote(table.None, l.Note())
	}
	var answer any = list
	if l.Document != nil {
		answer = l.Document(list)
	}
	return output.Show(&l.Output, s, remarks, &table, &list, answer)
}

// joinNote adds a remark to a sentence.
func joinNote(sentence, note string) string {
	if note == "" {
		return sentence
	}
	return sentence + " " + note
}
