package submission

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
)

const (
	// A page is what goes in one call: the API takes 1000 jobs, and 1 MiB in all.
	pageJobs  = 1000
	pageBytes = 1000 << 10
	// pagesAtOnce is how many calls run at the same time.
	pagesAtOnce = 4
	// The pauses for which submissions wait for room, if the API does not ask for more.
	shortestPause, longestPause = time.Second, 30 * time.Second
)

// batch is the submission of a file, page by page. Its memory does not grow with the file, except for
// a few bytes per submission that tell equal ones apart.
type batch struct {
	options *submitOptions
	client  *client.Client
	display *progress.Display
	size    int64 // of the file, 0 if it is unknown
	done    int64 // bytes of the file whose submissions are answered
	began   time.Time
	seen    map[[16]byte]int32 // how often each submission occurred
	gate    pauseGate
	// These count the jobs for the progress, also those of pages of which other rows still wait.
	submitted, present atomic.Int64

	kinds    *paramKinds
	report   batchReport
	rejected *rejects
}

// filePage is the part of a file that one call submits.
type filePage struct {
	rows []*outcome
	size int // of the submissions, in bytes
	end  int64
	err  error // of the file: nothing follows
	sent chan error
}

// outcome is the result of one submission: a job or an error.
type outcome struct {
	// Line counts from 1; in an array it counts the elements.
	Line           int                       `json:"line"`
	IdempotencyKey string                    `json:"idempotencyKey,omitempty"`
	JobID          string                    `json:"jobId,omitempty"`
	Deduplicated   bool                      `json:"deduplicated"`
	Error          *client.SubmissionRefusal `json:"error,omitempty"`

	entry entry
	input *client.SubmitJobInput // nil if it cannot be read
}

func newBatch(o *submitOptions, c *client.Client, d *progress.Display, out io.Writer, size int64) *batch {
	return &batch{
		options: o, client: c, display: d, size: size, began: time.Now(), seen: map[[16]byte]int32{},
		report:   batchReport{Batch: o.batch, out: out, json: o.asJSON, quiet: terminal.IsTerminal(out)},
		rejected: &rejects{path: o.rejected, csv: o.format == "csv"},
	}
}

// run submits everything in in. Its error says how to submit the rest.
func (b *batch) run(ctx context.Context, in io.Reader) error {
	if b.options.format == "csv" {
		b.kinds = readParamKinds(ctx, b.client)
	}
	sending, stop := context.WithCancel(ctx)
	pages := make(chan *filePage, pagesAtOnce-2) // one more is with the sender, and one with the loop below
	go func() {
		defer close(pages)
		b.send(sending, in, pages)
	}()
	var failed error
	fail := func(err error) {
		failed = cmp.Or(failed, err)
		if failed != nil {
			stop()
		}
	}
	for {
		page, more := followingPage(ctx, pages)
		if !more {
			break
		}
		if err := b.await(page); err != nil {
			fail(b.stopped(ctx, page, err))
			continue
		}
		fail(b.note(page))
		fail(page.err)
		fail(b.display.Err)
	}
	if failed == nil && ctx.Err() != nil {
		failed = terminal.StatusError(terminal.ExitInterrupted,
			errors.New("interrupted. Run the same command again to continue: it submits only what is missing"))
	}
	stop()
	b.progress(b.size, true)
	n := b.report.Accepted + b.report.Rejected
	switch {
	case failed != nil:
		return failed
	case n == 0:
		return fmt.Errorf("%s has no submissions", b.options.file)
	case b.report.Rejected > 0:
		return fmt.Errorf("%d of %d were refused. Correct them%s and run the same command again: it submits only those", b.report.Rejected, n,
			b.rejected.where())
	}
	return nil
}

// followingPage returns the next page, or false after the last one. After an interruption it does not wait for
// pages that are still to be read.
func followingPage(ctx context.Context, pages <-chan *filePage) (page *filePage, more bool) {
	select {
	case page, more = <-pages:
		return page, more
	default:
	}
	select {
	case page, more = <-pages:
		return page, more
	case <-ctx.Done():
		return nil, false
	}
}

// await waits until a page is sent, and shows the progress meanwhile.
func (b *batch) await(page *filePage) error {
	for second := time.NewTicker(time.Second); ; {
		select {
		case err := <-page.sent:
			second.Stop()
			return err
		case <-second.C:
			b.progress(b.done, false)
		}
	}
}

// send reads the file and sends its pages, several at once, in their order into pages.
func (b *batch) send(ctx context.Context, in io.Reader, pages chan<- *filePage) {
	page, line := &filePage{sent: make(chan error, 1)}, 0
	flush := func() bool {
		next := page
		go func() { next.sent <- b.submit(ctx, next) }()
		pages <- next
		page = &filePage{sent: make(chan error, 1), end: next.end}
		return ctx.Err() == nil
	}
	for e := range b.options.entries(in, b.kinds) {
		line = e.at
		if e.err != nil {
			page.err = fmt.Errorf("%s, %s %d: %w; nothing from there on was submitted", b.options.file, e.unit, line, e.err)
			break
		}
		row, size := b.read(e)
		if len(page.rows) > 0 && (page.size+size > pageBytes || len(page.rows) == pageJobs) && !flush() {
			return
		}
		page.rows, page.size, page.end = append(page.rows, row), page.size+size, e.end
	}
	if len(page.rows) > 0 || page.err != nil {
		flush()
	}
}

// read decodes a submission and returns its size in a call. A submission without an
// idempotency key gets one that depends on the batch, its content and how many equal ones came
// before it in the file, but not on its position.
func (b *batch) read(e entry) (row *outcome, size int) {
	row = &outcome{Line: e.at, entry: e}
	refuse := func(err error) (*outcome, int) {
		row.Error = &client.SubmissionRefusal{Code: string(client.CodeInvalidInput),
			Message: "This is not a submission: " + strings.ReplaceAll(err.Error()+".", "?.", "?")}
		return row, 0
	}
	if e.problem != nil {
		return refuse(e.problem)
	}
	in, err := ReadSubmission(e.text)
	if errors.Is(err, input.ErrIncomplete) && e.unit == "line" && e.row == nil {
		err = fmt.Errorf("%w. An object is on one line, as jq -c writes it, or begins and ends with a brace on a line of its own", err)
	}
	if err != nil {
		return refuse(err)
	}
	if in.Model == "" {
		in.Model = b.options.model
	}
	if in.Metadata, err = inBatch(in.Metadata, b.options.batch); err != nil {
		return refuse(err)
	}
	canonical, err := json.Marshal(in)
	if err != nil {
		return refuse(err)
	}
	if in.IdempotencyKey == nil {
		sum := sha256.Sum256(canonical)
		content := [16]byte(sum[:16])
		b.seen[content]++
		key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", b.options.batch, b.seen[content], canonical))
		in.IdempotencyKey = new(fmt.Sprintf("batch-%x", key[:16]))
	}
	row.input, row.IdempotencyKey = &in, *in.IdempotencyKey
	return row, len(canonical) + 64 // 64: the key and a comma
}

// inBatch adds the name of the batch to the metadata of a submission.
func inBatch(metadata *json.RawMessage, name string) (*json.RawMessage, error) {
	all := input.Fields{}
	if metadata != nil {
		if err := json.Unmarshal(*metadata, &all); err != nil || all == nil {
			return nil, errors.New("metadata must be an object")
		}
	}
	var given string
	if own := all[batchField]; own != nil && (json.Unmarshal(own, &given) != nil || given != name) {
		return nil, fmt.Errorf("metadata.%s is %s, but that field has the name of the batch, %s: leave it out", batchField,
			output.Clip(string(own), 40), name)
	}
	all[batchField] = jsonText(name)
	return all.Message(), nil
}

func jsonText(s string) json.RawMessage {
	quoted, _ := json.Marshal(s) // a string always has a JSON form
	return quoted
}

// submit sends the submissions of a page until each is a job or refused for good. While there is no
// room for some, they wait.
func (b *batch) submit(ctx context.Context, page *filePage) error {
	var waiting []*outcome
	for _, row := range page.rows {
		if row.input != nil {
			waiting = append(waiting, row)
		}
	}
	for pause := shortestPause; len(waiting) > 0; pause = min(2*pause, longestPause) {
		if err := b.gate.pass(ctx); err != nil {
			return err
		}
		left, after, why, err := b.try(ctx, waiting)
		if err != nil {
			return err
		}
		if waiting = left; len(waiting) > 0 {
			b.gate.close(max(pause, after), why)
		}
	}
	return nil
}

// try sends submissions once. It returns those that must wait, for how long at least, and why.
func (b *batch) try(ctx context.Context, rows []*outcome) (left []*outcome, after time.Duration, why string, err error) {
	inputs := make([]client.SubmitJobInput, len(rows))
	for i, row := range rows {
		inputs[i] = *row.input
	}
	answer, err := b.client.SubmitJobs(ctx, inputs)
	if e, ok := errors.AsType[*client.Error](err); ok && ctx.Err() == nil && mayWait(string(e.Code), e.RetryAfter) {
		return rows, e.RetryAfter, e.Message, nil
	}
	if err == nil && len(answer.Results) != len(rows) {
		err = fmt.Errorf("%d submissions were answered by %d results", len(rows), len(answer.Results))
	}
	if err != nil {
		return nil, 0, "", err
	}
	for i, row := range rows {
		result := answer.Results[i]
		switch refused := result.Error; {
		case refused == nil && result.Job != nil:
			row.JobID, row.Deduplicated = result.Job.Id, result.Deduplicated
			if row.Deduplicated {
				b.present.Add(1)
			} else {
				b.submitted.Add(1)
			}
		case refused == nil:
			row.Error = &client.SubmissionRefusal{Code: string(client.CodeInternal), Message: "The API answered with neither a job nor an error."}
		case mayWait(refused.Code, time.Duration(refused.RetryAfterSeconds)*time.Second):
			left, why = append(left, row), refused.Message
			after = max(after, time.Duration(refused.RetryAfterSeconds)*time.Second)
		case refused.Code == string(client.CodeIdempotencyConflict):
			row.Error = &client.SubmissionRefusal{Code: refused.Code, Field: refused.Field, Message: fmt.Sprintf(
				"The key %s belongs to another submission: this one was changed since, was in another batch, or has the key of another. "+
					"Undo the change, or give it a new key.", row.IdempotencyKey)}
		default:
			row.Error = refused
		}
	}
	return left, after, why, nil
}

// mayWait reports whether a refused submission may be accepted later, because there is no room now.
func mayWait(code string, after time.Duration) bool {
	switch client.Code(code) {
	case client.CodeRateLimited, client.CodeQuotaExceeded, client.CodeOverloaded:
		return after > 0
	}
	return false
}

// pauseGate holds all calls of a batch back while there is no room.
type pauseGate struct {
	mu    sync.Mutex
	until time.Time
	why   string
}

// close closes the gate for some time from now on.
func (g *pauseGate) close(d time.Duration, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.until) {
		g.until, g.why = until, why
	}
}

// pass waits until the gate is open.
func (g *pauseGate) pass(ctx context.Context) error {
	for {
		left, _ := g.left()
		if left <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// left returns for how long the gate is closed, and why.
func (g *pauseGate) left() (time.Duration, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.until), g.why
}
