package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// logOptions are the flags of `reelay logs`.
type logOptions struct {
	target  connect.Target
	attempt int
	follow  bool
}

// LogsCommand returns `reelay logs`.
func LogsCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of a job's runtime",
		Long: "Prints the last 64 kB of the runtime's output of the newest attempt that has a log, or of the one that --attempt\n" +
			"names. Of a running attempt it prints the lines that the worker has sent so far. With --follow, it prints the lines of\n" +
			"each attempt within seconds, until the job ends.",
		Example: "  reelay logs job_01937d3e\n  reelay logs job_01937d3e --attempt 2 | less\n  reelay logs -f job_01937d3e",
		Args:    JobArg,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	connect.TakeIDs(cmd, "job")
	o.target.AddFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.attempt, "attempt", 0, "number of the attempt (default: the newest with a log)")
	f.BoolVarP(&o.follow, "follow", "f", false, "print the lines as they come, until the job ends")
	return cmd
}

// logsEvery is how often the attempts of a followed job are read.
const logsEvery = 2 * time.Second

func (o *logOptions) run(cmd *cobra.Command, text string) error {
	if o.follow && o.attempt != 0 {
		return terminal.UsageError(cmd, errors.New("--follow and --attempt are both given: use one of them"))
	}
	ctx, out := cmd.Context(), output.ScreenOf(cmd.OutOrStdout())
	c, err := o.target.Client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	id, err := connect.FullID(ctx, c, "job", text)
	if err != nil {
		return o.target.Explain(err)
	}
	if o.follow {
		return o.target.Explain(followLogs(ctx, c, id, out, cmd.ErrOrStderr()))
	}
	attempts, _, err := c.JobAttempts(ctx, id)
	if err != nil {
		return o.target.Explain(err)
	}
	chosen, err := chooseLog(attempts, o.attempt)
	if err != nil {
		return err
	}
	if chosen.Log != nil {
		return copyLog(ctx, out, chosen.Log)
	}
	live, err := c.LiveLog(ctx, chosen.Id, 0)
	switch {
	case err != nil:
		return o.target.Explain(err)
	case live.Text != "":
		return printLog(out, live.Text)
	case chosen.EndedAt == nil:
		return fmt.Errorf("attempt %d has no log yet: it is %s", chosen.AttemptNo, strings.ToLower(string(chosen.Status)))
	}
	return fmt.Errorf("attempt %d has no log: it is %s", chosen.AttemptNo, strings.ToLower(string(chosen.Status)))
}

// chooseLog returns the attempt with a number, or the newest one with a log. It has a log, or its
// worker may have sent some lines.
func chooseLog(attempts []client.Attempt, number int) (*client.Attempt, error) {
	newest := slices.SortedFunc(slices.Values(attempts), func(a, b client.Attempt) int { return cmp.Compare(b.AttemptNo, a.AttemptNo) })
	for i := range newest {
		a := &newest[i]
		switch {
		case number != 0 && a.AttemptNo != number:
		case a.Log != nil, a.EndedAt == nil, number != 0:
			return a, nil
		}
	}
	switch {
	case len(attempts) == 0:
		return nil, errors.New("no worker has started the job yet: there is no log")
	case number != 0:
		return nil, fmt.Errorf("there is no attempt %d: the job has %d", number, newest[0].AttemptNo)
	}
	return &newest[0], nil
}

// followed is what `reelay logs -f` has printed of an attempt.
type followed struct {
	end   int64  // the position in the live log
	tail  string // the last text from there
	whole bool   // the attempt has ended, and all of its log is printed
}

// followLogs prints the log of each attempt until the job ends.
func followLogs(ctx context.Context, c *client.Client, id string, out *output.Screen, remarks io.Writer) error {
	printed, ticker := map[int]*followed{}, time.NewTicker(logsEvery)
	defer ticker.Stop()
	for {
		attempts, status, err := c.JobAttempts(ctx, id)
		for i := range attempts {
			if a := &attempts[i]; err == nil {
				f := printed[a.AttemptNo]
				if f == nil {
					f = &followed{}
					printed[a.AttemptNo] = f
				}
				err = f.print(ctx, c, a, out, remarks)
			}
		}
		if ctx.Err() != nil {
			return progress.Interrupted(id)
		}
		if err != nil || status.Terminal() {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// print prints what is new of an attempt's log.
func (f *followed) print(ctx context.Context, c *client.Client, a *client.Attempt, out *output.Screen, remarks io.Writer) error {
	if f.whole {
		return nil
	}
	text, err := f.unprinted(ctx, c, a)
	if err != nil || text == "" {
		return err
	}
	if f.tail == "" {
		fmt.Fprintf(remarks, "==> attempt %d, %s <==\n", a.AttemptNo, strings.ToLower(string(a.Status)))
	}
	f.tail += text
	f.tail = f.tail[max(len(f.tail)-maxFollowed, 0):]
	return printLog(out, text)
}

// maxFollowed is how much of the printed text is looked for in the log of an attempt that ended.
const maxFollowed = 4 << 10

// unprinted returns what is not printed yet: of the live log, or of the whole one once it is stored.
func (f *followed) unprinted(ctx context.Context, c *client.Client, a *client.Attempt) (string, error) {
	if a.Log != nil {
		f.whole = true
		text, err := readLog(ctx, a.Log)
		return f.rest(text), err
	}
	live, err := c.LiveLog(ctx, a.Id, f.end)
	if err != nil {
		return "", err
	}
	f.end = live.End
	f.whole = a.EndedAt != nil && live.Text == ""
	return live.Text, nil
}

// rest returns what follows the printed text in the whole log, whose beginning can be missing.
func (f *followed) rest(log string) string {
	if f.end <= int64(len(log)) && strings.HasSuffix(log[:f.end], f.tail) {
		return log[f.end:]
	}
	if at := strings.LastIndex(log, f.tail); at >= 0 {
		return log[at+len(f.tail):]
	}
	return log
}

// maxLog is more than a log has.
const maxLog = 1 << 20

// copyLog prints a log.
func copyLog(ctx context.Context, out *output.Screen, log *client.Artifact) error {
	text, err := readLog(ctx, log)
	if err != nil {
		return err
	}
	return printLog(out, text)
}

func readLog(ctx context.Context, log *client.Artifact) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, log.Url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("the log cannot be read: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the log cannot be read: the server answered %s", answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLog))
	if err != nil {
		return "", fmt.Errorf("the log cannot be read: %w", err)
	}
	return string(text), nil
}

// printLog prints a part of a log. A terminal gets it without escape sequences.
func printLog(out *output.Screen, text string) error {
	if out.Width == 0 {
		_, err := io.WriteString(out, text)
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(output.Clean(strings.TrimRight(line, "\r\n")) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
