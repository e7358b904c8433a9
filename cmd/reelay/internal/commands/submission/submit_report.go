package submission

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/samber/lo"
)

const (
	// shownRefusals is how many refused submissions are shown.
	shownRefusals = 20
	// Without a terminal there is a line of progress at most so often, and less often while nothing
	// changes.
	progressEvery, stillEvery = 5 * time.Second, time.Minute
)

// batchReport is what --json prints, while the batch runs.
type batchReport struct {
	Batch        string     `json:"batch"`
	Results      []*outcome `json:"results"` // as read back; they are written one by one
	Accepted     int        `json:"accepted"`
	Deduplicated int        `json:"deduplicated"`
	Rejected     int        `json:"rejected"`

	out             io.Writer
	json, quiet     bool
	written         int
	err             error
	reportedAt      time.Time // of the last line of progress
	reportedResults int       // the results that it counted
}

// add counts a result and prints it.
func (r *batchReport) add(row *outcome) {
	switch {
	case row.Error != nil:
		r.Rejected++
	case row.Deduplicated:
		r.Accepted, r.Deduplicated = r.Accepted+1, r.Deduplicated+1
	default:
		r.Accepted++
	}
	switch {
	case r.json:
		text, err := json.Marshal(row)
		r.err = errors.Join(r.err, err)
		r.write(map[bool]string{true: fmt.Sprintf("{\"batch\": %s, \"results\": [\n", jsonText(r.Batch)),
			false: ",\n"}[r.written == 0] + string(text))
		r.written++
	case row.JobID != "" && !r.quiet:
		r.write(row.JobID + "\n")
	}
}

func (r *batchReport) write(text string) {
	if r.err == nil {
		_, r.err = io.WriteString(r.out, text)
	}
}

// close completes the JSON document.
func (r *batchReport) close() error {
	if r.json {
		head := ""
		if r.written == 0 {
			head = fmt.Sprintf("{\"batch\": %s, \"results\": [", jsonText(r.Batch))
		}
		r.write(fmt.Sprintf("%s\n], \"accepted\": %d, \"deduplicated\": %d, \"rejected\": %d}\n", head, r.Accepted, r.Deduplicated, r.Rejected))
	}
	return r.err
}

// note reports the results of a page.
func (b *batch) note(page *filePage) error {
	if !b.report.json && !b.report.quiet {
		b.display.Erase()
	}
	for _, row := range page.rows {
		b.report.add(row)
		if row.Error == nil {
			continue
		}
		if b.report.Rejected <= shownRefusals {
			b.display.Note(output.Clean(fmt.Sprintf("%s %d: %s: %s", row.entry.unit, row.Line, row.Error.Code, row.Error.Message)))
		} else if b.report.Rejected == shownRefusals+1 {
			b.display.Note("… and more, which are not shown: --rejected FILE keeps all of them")
		}
		if err := b.rejected.add(row.entry); err != nil {
			return err
		}
	}
	b.done = page.end
	b.progress(b.done, false)
	return b.report.err
}

// progress shows how much is submitted, how fast, and how long the rest takes.
func (b *batch) progress(end int64, last bool) {
	r := &b.report
	submitted, present := int(b.submitted.Load()), int(b.present.Load())
	n := submitted + present + r.Rejected
	every := progressEvery
	if n == r.reportedResults {
		every = stillEvery
	}
	if r.reportedAt.IsZero() {
		r.reportedAt = b.began
	}
	if n == 0 && last || !last && !b.display.TTY && time.Since(r.reportedAt) < every {
		return
	}
	line := fmt.Sprintf("%d submitted", submitted)
	if present > 0 {
		line += fmt.Sprintf(", %d %s there already", present, lo.Ternary(present == 1, "was", "were"))
	}
	if r.Rejected > 0 {
		line += fmt.Sprintf(", %d refused", r.Rejected)
	}
	if seconds := time.Since(b.began).Seconds(); seconds >= 1 && !last {
		line += fmt.Sprintf(" · %.0f/s", float64(n)/seconds)
		if b.size > 0 && end > 0 {
			line += fmt.Sprintf(" · %d %% · %s left", 100*end/b.size, text.Seconds(seconds/float64(end)*float64(b.size-end)))
		}
	}
	if wait, why := b.gate.left(); wait > time.Second && !last {
		line += fmt.Sprintf(" · waiting %s: %s", text.Duration(wait.Round(time.Second)), output.Clean(why))
	}
	r.reportedAt, r.reportedResults = time.Now(), n
	if b.display.TTY && !last {
		b.display.Replace(output.Clip(line, b.display.Width()-1))
	} else {
		b.display.Note(line)
	}
}

// stopped returns the error of a page without an answer. Its submissions may have been
// accepted and are not in the report.
func (b *batch) stopped(ctx context.Context, page *filePage, err error) error {
	first := page.rows[0]
	fate := "may have been accepted"
	if e, ok := errors.AsType[*client.Error](err); ok && !e.Unsettled {
		fate = "were not accepted"
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	err = fmt.Errorf("%w\nThe submissions from %s %d on %s. Run the same command again to continue: it submits only what is missing",
		Unanswered(ctx, err), first.entry.unit, first.Line, fate)
	if ctx.Err() != nil {
		return terminal.StatusError(terminal.ExitInterrupted, err)
	}
	return err
}

// rejects is the file for refused submissions. It exists once one was refused.
type rejects struct {
	path string
	csv  bool
	file *os.File
	rows *csv.Writer
}

func (r *rejects) add(e entry) (err error) {
	if r.path == "" || e.row == nil && e.text == nil { // a row that cannot be read cannot be copied
		return nil
	}
	if r.file == nil {
		if r.file, err = os.OpenFile(r.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		if r.rows = csv.NewWriter(r.file); r.csv {
			_ = r.rows.Write(e.header) // its errors come again with Flush
		}
	}
	if r.csv {
		_ = r.rows.Write(e.row)
		return nil
	}
	_, err = fmt.Fprintf(r.file, "%s\n", e.text)
	return err
}

// where says where the refused submissions are, if they are kept.
func (r *rejects) where() string {
	if r.file == nil {
		return ""
	}
	return " (" + r.path + " has a copy)"
}

func (r *rejects) close() error {
	if r.file == nil {
		return nil
	}
	r.rows.Flush()
	return errors.Join(r.rows.Error(), r.file.Close())
}
