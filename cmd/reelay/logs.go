package main

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
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

// logOptions are the flags of `reelay logs`.
type logOptions struct {
	target  target
	attempt int
	follow  bool
}

func logsCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print the output of a job's runtime",
		Long: "Prints the last 64 kB of the runtime's output of the newest attempt that has a log, or of the one that --attempt\n" +
			"names. A worker sends the log when its attempt ends. With --follow, it prints the log of each attempt until the job ends.",
		Example: "  reelay logs job_01937d3e\n  reelay logs job_01937d3e --attempt 2 | less\n  reelay logs -f job_01937d3e",
		Args:    jobArg,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	cmd.ValidArgsFunction = completeIDs("job")
	o.target.addFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.attempt, "attempt", 0, "number of the attempt (default: the newest with a log)")
	f.BoolVarP(&o.follow, "follow", "f", false, "print the logs of the attempts as they end, until the job ends")
	return cmd
}

// logsEvery is how often the attempts of a followed job are read.
const logsEvery = 2 * time.Second

func (o *logOptions) run(cmd *cobra.Command, text string) error {
	if o.follow && o.attempt != 0 {
		return &usageError{cmd, errors.New("--follow and --attempt are both given: use one of them")}
	}
	ctx, out := cmd.Context(), output.ScreenOf(cmd.OutOrStdout())
	c, err := o.target.client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	id, err := fullID(ctx, c, "job", text)
	if err != nil {
		return o.target.explain(err)
	}
	if o.follow {
		return o.target.explain(followLogs(ctx, c, id, out, cmd.ErrOrStderr()))
	}
	attempts, _, err := c.JobAttempts(ctx, id)
	if err != nil {
		return o.target.explain(err)
	}
	chosen, err := chooseLog(attempts, o.attempt)
	if err != nil {
		return err
	}
	return copyLog(ctx, out, chosen.Log)
}

// chooseLog returns the attempt with a number, or the newest one with a log. It has a log.
func chooseLog(attempts []client.Attempt, number int) (*client.Attempt, error) {
	newest := slices.SortedFunc(slices.Values(attempts), func(a, b client.Attempt) int { return cmp.Compare(b.AttemptNo, a.AttemptNo) })
	for i := range newest {
		a := &newest[i]
		switch {
		case number != 0 && a.AttemptNo != number:
		case a.Log != nil:
			return a, nil
		case number != 0:
			return nil, fmt.Errorf("attempt %d has no log: it is %s", number, strings.ToLower(string(a.Status)))
		}
	}
	switch {
	case len(attempts) == 0:
		return nil, errors.New("no worker has started the job yet: there is no log")
	case number != 0:
		return nil, fmt.Errorf("there is no attempt %d: the job has %d", number, newest[0].AttemptNo)
	}
	return nil, errors.New("no attempt of the job has a log yet: a worker sends it when its attempt ends")
}

// followLogs prints the log of each attempt until the job ends.
func followLogs(ctx context.Context, c *client.Client, id string, out *output.Screen, remarks io.Writer) error {
	printed := map[int]bool{}
	for ticker := time.NewTicker(logsEvery); ; {
		attempts, status, err := c.JobAttempts(ctx, id)
		if ctx.Err() != nil {
			return interrupted(id)
		}
		if err != nil {
			ticker.Stop()
			return err
		}
		for _, a := range attempts {
			if a.Log == nil || printed[a.AttemptNo] {
				continue
			}
			printed[a.AttemptNo] = true
			fmt.Fprintf(remarks, "==> attempt %d, %s <==\n", a.AttemptNo, strings.ToLower(string(a.Status)))
			if err := copyLog(ctx, out, a.Log); err != nil {
				return err
			}
		}
		if status.Terminal() {
			ticker.Stop()
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// maxLog is more than a log has.
const maxLog = 1 << 20

// copyLog prints a log. A terminal gets it without escape sequences.
func copyLog(ctx context.Context, out *output.Screen, log *client.Artifact) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, log.Url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the log cannot be read: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the log cannot be read: the server answered %s", answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLog))
	if err != nil {
		return fmt.Errorf("the log cannot be read: %w", err)
	}
	if out.Width == 0 {
		_, err = out.Write(text)
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(output.Clean(strings.TrimRight(line, "\r\n")) + "\n")
	}
	_, err = io.WriteString(out, b.String())
	return err
}
