package query

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
)

// ReportNames are the names under which the reports can be had as CSV.
var ReportNames = []string{"dead-letters", "waiting", "retries", "flakiness", "retention"}

// WriteCSV writes one of the reports, or returns INVALID_INPUT for an unknown one. A text that a spreadsheet would read
// as a formula begins with an apostrophe.
func (s *ReportSet) WriteCSV(to io.Writer, report string) error {
	out := csv.NewWriter(to)
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	number := func(n *float64) string {
		if n == nil {
			return ""
		}
		return fmt.Sprintf("%.3f", *n)
	}
	write := func(cells ...any) {
		row := make([]string, len(cells))
		for i, cell := range cells {
			row[i] = text.Cell(fmt.Sprint(cell))
		}
		_ = out.Write(row)
	}
	switch report {
	case "dead-letters":
		write("type", "model", "failure_class", "count", "oldest_at", "newest_at")
		for _, d := range s.DeadLetters {
			write(d.Type, d.Model, d.FailureClass, d.Count, at(d.OldestAt), at(d.NewestAt))
		}
	case "waiting":
		write("job", "account", "type", "model", "lane", "queued_at", "waited_seconds", "reasons")
		for _, w := range s.Waiting {
			write(w.Job.ID, w.Job.AccountID, w.Job.Type, w.Job.Model, w.Job.Lane, at(w.Job.QueuedAt), number(&w.Seconds),
				strings.Join(w.Sentences(), " "))
		}
	case "retries":
		write("type", "completed", "retried", "retries", "mean", "most", "since")
		for _, r := range s.Retries {
			write(r.Type, r.Completed, r.Retried, r.Retries, number(new(r.Mean())), r.Most, at(r.Since))
		}
	case "flakiness":
		write("by", "name", "attempts", "completed", "cancelled", "attempts_per_video", "failure_rate", "wasted_seconds")
		for _, f := range s.Flakiness {
			write(strings.ToLower(string(f.By)), f.Name, f.Attempts, f.Completed, f.Cancelled, number(f.PerVideo()), number(new(f.FailureRate())),
				number(&f.WastedSeconds))
		}
	case "retention":
		write("kind", "rows", "exact", "oldest_at", "kept_seconds", "goes_at")
		for _, k := range s.Retention {
			write(strings.ToLower(string(k.Kind)), k.Rows, k.Exact(), at(k.OldestAt), number(k.KeptSeconds()), at(k.GoesAt()))
		}
	default:
		return apierror.Invalid("report", "There is no report %.40q: it must be one of %s.", report, text.Join(ReportNames))
	}
	out.Flush()
	return out.Error()
}

// Sentences are the reasons why the job waits, for operators.
func (w *WaitingJob) Sentences() []string {
	if len(w.Reasons) == 0 {
		return []string{NothingHolds}
	}
	sentences := make([]string, len(w.Reasons))
	for i, reason := range w.Reasons {
		sentences[i] = reason.Whole()
	}
	return sentences
}
