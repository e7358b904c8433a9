package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WatchFlag is the flag --watch of lists.
type WatchFlag struct{ Every time.Duration }

// shortestWatch is the shortest time between two looks at a list.
const shortestWatch = time.Second

// AddFlag adds --watch to the flags of a command.
func (w *WatchFlag) AddFlag(f *pflag.FlagSet) {
	f.VarPF((*watchValue)(&w.Every), "watch", "w", "show the list again every 2 s, or as given: --watch=10s").NoOptDefVal = "2s"
}

// watchValue is the time between two looks at a list.
type watchValue time.Duration

// Set implements [pflag.Value].
func (v *watchValue) Set(text string) error {
	every, err := time.ParseDuration(text)
	if err != nil || every < shortestWatch || every > time.Hour {
		return errors.New("it must be a duration from 1s to 1h, such as 10s")
	}
	*v = watchValue(every)
	return nil
}

// String implements [pflag.Value].
func (v *watchValue) String() string {
	if *v == 0 {
		return ""
	}
	return time.Duration(*v).String()
}

// Type implements [pflag.Value].
func (v *watchValue) Type() string { return "duration" }

// Run calls show until the command is stopped, and prints what it shows: on a terminal in place
// of what was there before, elsewhere only if it changed. A server that is away for a while does
// not end it.
func (w *WatchFlag) Run(cmd *cobra.Command, o *output.Options, show func(ctx context.Context, s *output.Screen) error) error {
	screen := o.Screen(cmd, cmd.OutOrStdout())
	last, shown := "", false
	for ticker := time.NewTicker(w.Every); ; {
		var page bytes.Buffer
		err := show(cmd.Context(), screen.On(&page))
		problem := ""
		if e, ok := errors.AsType[*client.Error](err); ok && e.Retryable() && shown {
			problem = e.Message
		} else if err != nil && cmd.Context().Err() == nil {
			ticker.Stop()
			return err
		}
		if cmd.Context().Err() != nil {
			ticker.Stop()
			return nil // this is how it ends
		}
		if problem == "" {
			last, shown, err = w.print(screen, cmd, page.String(), last)
		} else {
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), "reelay: "+output.Clean(problem))
		}
		if err != nil {
			ticker.Stop()
			return err
		}
		select {
		case <-ticker.C:
		case <-cmd.Context().Done():
		}
	}
}

// print prints one look at the list.
func (w *WatchFlag) print(s *output.Screen, cmd *cobra.Command, page, last string) (string, bool, error) {
	var err error
	switch {
	case s.Width > 0:
		err = redraw(s, fmt.Sprintf("%s, every %s, at %s. Ctrl-C ends it.", cmd.CommandPath(), w.Every, time.Now().Format(time.TimeOnly)), page)
	case page != last:
		_, err = io.WriteString(s, page)
	}
	return page, true, err
}

// redraw replaces what a terminal shows by a title and a page, as far as they fit. It writes over the
// old lines instead of clearing the screen first, which would flicker.
func redraw(s *output.Screen, title, page string) error {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if room := s.Height - 3; room > 0 && len(lines) > room {
		lines = append(lines[:room], "…")
	}
	lines = append([]string{s.Paint(output.Dim, output.Clip(title, s.Width))}, lines...)
	_, err := io.WriteString(s, "\x1b[H"+strings.Join(lines, "\x1b[K\n")+"\x1b[K\n\x1b[J")
	return err
}
