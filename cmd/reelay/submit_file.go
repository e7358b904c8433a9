package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// A page is what goes in one call: the API takes 1000 jobs, and 1 MiB in all.
	pageJobs  = 1000
	pageBytes = 1000 << 10
)

// withFile are the flags that can be used with --file.
var withFile = map[string]bool{
	"file": true, "model": true, "idempotency-key": true, "json": true, "endpoint": true, "key": true, "data": true,
}

// batch is the submission of a file, page by page.
type batch struct {
	options *submitOptions
	client  *client.Client
	display *display
	seen    map[[sha256.Size]byte]int // how often each submission occurred
	unit    string                    // of the file: line or element

	page    []client.SubmitJobInput
	size    int        // of the page, in bytes
	waiting []*outcome // of the page
	report  batchReport
}

// batchReport is what --json prints.
type batchReport struct {
	Accepted     int        `json:"accepted"`
	Deduplicated int        `json:"deduplicated"`
	Rejected     int        `json:"rejected"`
	Results      []*outcome `json:"results"`
}

// outcome is the result of one submission: a job or an error.
type outcome struct {
	// Line counts from 1; in an array it counts the elements.
	Line           int                       `json:"line"`
	IdempotencyKey string                    `json:"idempotencyKey,omitempty"`
	JobID          string                    `json:"jobId,omitempty"`
	Deduplicated   bool                      `json:"deduplicated"`
	Error          *client.SubmissionRefusal `json:"error,omitempty"`
}

func (o *submitOptions) runFile(cmd *cobra.Command) error {
	var stray error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !withFile[f.Name] {
			stray = fmt.Errorf("--%s cannot be used with --file: set it in the submissions of the file", f.Name)
		}
	})
	if stray != nil {
		return &usageError{cmd, stray}
	}
	in := cmd.InOrStdin()
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	c, err := o.target.client(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	b := &batch{options: o, client: c, display: displayFor(cmd, cmd.ErrOrStderr()), seen: map[[sha256.Size]byte]int{}, report: batchReport{Results: []*outcome{}}}
	err = b.run(cmd.Context(), in)
	b.display.erase()
	return errors.Join(b.print(cmd.OutOrStdout()), err)
}

// run submits everything in in. Its error says how to submit the rest.
func (b *batch) run(ctx context.Context, in io.Reader) error {
	n := 0
	for e := range entries(in) {
		n++
		b.unit = e.unit
		if e.err != nil {
			if err := b.flush(ctx); err != nil {
				return err
			}
			return fmt.Errorf("%s, %s %d: %w; nothing from there on was submitted", b.options.file, e.unit, e.at, e.err)
		}
		if err := b.add(ctx, e); err != nil {
			return err
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%s has no submissions", b.options.file)
	}
	if b.report.Rejected > 0 {
		return fmt.Errorf("%d of %d were refused. Fix them, or wait until there is room, and run the same command again: it submits only those", b.report.Rejected, n)
	}
	return nil
}

// add appends a submission to the page and sends the page when it is full. It refuses a
// submission that cannot be read.
func (b *batch) add(ctx context.Context, e entry) error {
	result := &outcome{Line: e.at}
	b.report.Results = append(b.report.Results, result)
	in, size, err := b.read(e.text)
	if err != nil {
		b.refuse(result, &client.SubmissionRefusal{Code: string(client.CodeInvalidInput), Message: "This is not a submission: " + err.Error() + "."})
		return nil
	}
	result.IdempotencyKey = *in.IdempotencyKey
	if len(b.page) > 0 && b.size+size > pageBytes {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.page, b.waiting, b.size = append(b.page, in), append(b.waiting, result), b.size+size
	if len(b.page) == pageJobs {
		return b.flush(ctx)
	}
	return nil
}

// read decodes a submission and returns its size in a call. A submission without an
// idempotency key gets one that depends on its content and on how many equal ones came
// before it in the file, but not on its position.
func (b *batch) read(text json.RawMessage) (in client.SubmitJobInput, size int, err error) {
	if in, err = readSubmission(text); err != nil {
		return in, 0, err
	}
	if in.Model == "" {
		in.Model = b.options.model
	}
	canonical, err := json.Marshal(in)
	if err == nil && in.IdempotencyKey == nil {
		content := sha256.Sum256(canonical)
		b.seen[content]++
		key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", b.options.idempotencyKey, b.seen[content], canonical))
		in.IdempotencyKey = new(fmt.Sprintf("file-%x", key[:16]))
	}
	return in, len(canonical) + 64, err // 64: the key and a comma
}

func (b *batch) refuse(result *outcome, why *client.SubmissionRefusal) {
	result.Error = why
	b.report.Rejected++
	b.display.note(fmt.Sprintf("%s %d: %s: %s", b.unit, result.Line, why.Code, why.Message))
}

// flush sends the page.
func (b *batch) flush(ctx context.Context) error {
	if len(b.page) == 0 {
		return nil
	}
	answer, err := b.client.SubmitJobs(ctx, b.page)
	if err == nil && len(answer.Results) != len(b.page) {
		err = fmt.Errorf("%d submissions were answered by %d results", len(b.page), len(answer.Results))
	}
	if err != nil {
		return b.stopped(ctx, err)
	}
	for i, result := range b.waiting {
		switch answered := answer.Results[i]; {
		case answered.Error != nil:
			b.refuse(result, answered.Error)
		case answered.Job != nil:
			result.JobID, result.Deduplicated = answered.Job.Id, answered.Deduplicated
			b.report.Accepted++
			if answered.Deduplicated {
				b.report.Deduplicated++
			}
		}
	}
	b.page, b.waiting, b.size = nil, nil, 0
	b.progress()
	return b.display.err
}

// stopped returns the error of a page without an answer. Its submissions may have been
// accepted and are not in the report.
func (b *batch) stopped(ctx context.Context, err error) error {
	first := b.waiting[0].Line
	b.report.Results = b.report.Results[:len(b.report.Results)-len(b.waiting)]
	fate := "may have been accepted"
	if e, ok := errors.AsType[*client.Error](err); ok && !e.Unsettled {
		fate = "were not accepted"
	}
	err = fmt.Errorf("%w\nThe submissions from %s %d on %s. Run the same command again to continue: it submits none twice", unanswered(ctx, err), b.unit, first, fate)
	if ctx.Err() != nil {
		return &statusError{exitInterrupted, err}
	}
	return err
}

func (b *batch) progress() {
	text := fmt.Sprintf("%d accepted, %d refused", b.report.Accepted, b.report.Rejected)
	if b.display.tty {
		b.display.replace(text)
	} else {
		b.display.note(text)
	}
}

func (b *batch) print(out io.Writer) error {
	if b.options.asJSON {
		return printJSON(out, b.report)
	}
	for _, result := range b.report.Results {
		if result.JobID != "" {
			if _, err := fmt.Fprintln(out, result.JobID); err != nil {
				return err
			}
		}
	}
	return nil
}
