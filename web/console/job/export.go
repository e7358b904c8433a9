package job

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
)

const (
	// exportLimit is the greatest number of jobs in an export, exportPage how many are read at
	// a time.
	exportLimit = 10_000
	exportPage  = paging.Max
)

// exportedJob is one line of an export. Prompts are not in it: they are stored encrypted.
type exportedJob struct {
	ID             models.JobID    `json:"id"`
	Status         string          `json:"status"`
	Type           string          `json:"type"`
	Model          string          `json:"model"`
	Tier           models.Tier     `json:"tier"`
	Lane           models.Tier     `json:"lane"`
	Account        string          `json:"account"`
	AccountID      string          `json:"accountId"`
	UserID         string          `json:"userId,omitempty"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	WorkerID       string          `json:"workerId,omitempty"`
	Run            int             `json:"run"`
	Attempts       int             `json:"attempts"`
	Percent        float64         `json:"percent"`
	WaitedSeconds  *float64        `json:"waitedSeconds"`
	RanSeconds     *float64        `json:"ranSeconds"`
	WastedSeconds  float64         `json:"wastedGpuSeconds"`
	FailureClass   string          `json:"failureClass,omitempty"`
	FailureReason  string          `json:"failureReason,omitempty"`
	CreatedAt      time.Time       `json:"createdAt"`
	RunAt          *time.Time      `json:"runAt,omitempty"`
	CompletedAt    *time.Time      `json:"completedAt,omitempty"`
	DeletedAt      *time.Time      `json:"deletedAt,omitempty"`
	Metadata       json.RawMessage `json:"metadata,omitempty"`
}

func exported(row jobRow, now time.Time) exportedJob {
	return exportedJob{
		ID: row.ID, Status: string(row.Status), Type: row.Type, Model: row.Model, Tier: row.Tier, Lane: row.Lane,
		Account: row.Account, AccountID: string(row.AccountID), UserID: row.UserID, IdempotencyKey: row.IdempotencyKey,
		WorkerID: string(row.WorkerID), Run: row.Run, Attempts: row.AttemptNo, Percent: row.Percent,
		WaitedSeconds: row.Waited(now), RanSeconds: row.Ran(now), WastedSeconds: row.WastedGPUSeconds,
		FailureClass: string(row.FailureClass), FailureReason: row.FailureReason, CreatedAt: row.CreatedAt,
		RunAt: optionalTime(row.RunAt), CompletedAt: optionalTime(row.CompletedAt), DeletedAt: optionalTime(row.DeletedAt),
		Metadata: row.Metadata,
	}
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// exportColumns is the first line of a CSV export.
var exportColumns = []string{
	"id", "status", "type", "model", "tier", "lane", "account", "account_id", "user_id", "idempotency_key", "worker_id", "run", "attempts",
	"percent",
	"waited_seconds", "ran_seconds", "wasted_gpu_seconds", "failure_class", "failure_reason", "created_at", "run_at", "completed_at",
	"deleted_at", "metadata",
}

func (e exportedJob) cells() []string {
	number := func(f *float64) string {
		if f == nil {
			return ""
		}
		return strconv.FormatFloat(*f, 'f', -1, 64)
	}
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	cells := []string{
		string(e.ID), e.Status, e.Type, e.Model, string(e.Tier), string(e.Lane), e.Account, e.AccountID, e.UserID, e.IdempotencyKey, e.WorkerID,
		strconv.Itoa(e.Run), strconv.Itoa(e.Attempts), number(&e.Percent), number(e.WaitedSeconds), number(e.RanSeconds),
		number(&e.WastedSeconds),
		e.FailureClass, e.FailureReason, at(&e.CreatedAt), at(e.RunAt), at(e.CompletedAt), at(e.DeletedAt), string(e.Metadata),
	}
	for i := range cells {
		cells[i] = text.Cell(cells[i])
	}
	return cells
}

// jobExport sends the jobs that match, up to exportLimit, as CSV or as JSON lines. It reads and
// sends them page by page.
func (c *controller) jobExport(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	q, err := address.ReadJobs(r.URL.Query())
	if err != nil {
		return err
	}
	q.After, q.Size = "", 0
	page, err := c.exportPage(r.Context(), p, q, "")
	if err != nil {
		return err
	}
	name, kind := "jobs.jsonl", "application/jsonl"
	write, flush := jsonLines(w)
	if strings.HasSuffix(r.URL.Path, ".csv") {
		name, kind = "jobs.csv", "text/csv; charset=utf-8"
		write, flush = csvLines(w)
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	for sent := 0; ; {
		now := time.Now()
		for _, row := range page.rows {
			if sent++; sent > exportLimit {
				return nil
			}
			if err := write(exported(row, now)); err != nil {
				return nil // the browser is gone
			}
		}
		if flush() != nil || page.next == "" || sent == exportLimit {
			return nil
		}
		if page, err = c.exportPage(r.Context(), p, q, page.next); err != nil {
			slog.ErrorContext(r.Context(), "an export ended early", "error", err)
			panic(http.ErrAbortHandler) // the browser must not take the part for the whole
		}
	}
}

type exportPart struct {
	rows []jobRow
	next string
}

func (c *controller) exportPage(ctx context.Context, p jobs.Principal, q address.Jobs, after string) (part exportPart, err error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.PagePrice(exportPage)+query.SearchPrice)
	if err != nil {
		return part, err
	}
	defer read.End()
	found, err := c.Reads.Jobs.ListIn(ctx, p, q.SortedBy(), q.Filter(), paging.Request{First: exportPage, After: after})
	if err != nil {
		return part, err
	}
	if found.More {
		part.next = found.End
	}
	part.rows, err = c.plainRows(ctx, p, found.Items)
	return part, err
}

func jsonLines(w io.Writer) (write func(exportedJob) error, flush func() error) {
	lines := json.NewEncoder(w)
	return func(e exportedJob) error { return lines.Encode(e) }, func() error { return nil }
}

func csvLines(w io.Writer) (write func(exportedJob) error, flush func() error) {
	lines := bufio.NewWriter(w)
	writeQuoted(lines, exportColumns)
	return func(e exportedJob) error { writeQuoted(lines, e.cells()); return nil }, lines.Flush
}

// writeQuoted writes a line of CSV (RFC 4180) in which every cell is quoted, whatever is in it, so
// that a spreadsheet whose list separator is a semicolon keeps cells with one whole. An error stays
// with the writer, whose Flush returns it.
func writeQuoted(w *bufio.Writer, cells []string) {
	for i, cell := range cells {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		_ = w.WriteByte('"')
		_, _ = w.WriteString(strings.ReplaceAll(cell, `"`, `""`))
		_ = w.WriteByte('"')
	}
	_, _ = w.WriteString("\r\n")
}

// jobEventsExport sends all events of a job as a JSON array, oldest first. It reads and sends them page
// by page.
func (c *controller) jobEventsExport(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	job, err := c.Reads.Jobs.Get(r.Context(), p, models.JobID(r.PathValue("id")))
	if err != nil {
		return err
	}
	edges, err := c.Reads.Jobs.Of(p, job)
	if err != nil {
		return err
	}
	pages, err := edges.Events(r.Context(), 0, exportPage)
	if err != nil {
		return err
	}
	page := pages[job.ID]
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", string(job.ID)+"-events.json"))
	out := bufio.NewWriter(w)
	defer out.Flush()
	before := "[\n"
	for {
		for _, e := range page.Items {
			line, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("encode an event of job %s: %w", job.ID, err)
			}
			if _, err := out.WriteString(before + string(line)); err != nil {
				return nil // the browser is gone
			}
			before = ",\n"
		}
		if !page.More || len(page.Items) == 0 {
			break
		}
		if pages, err = edges.Events(r.Context(), page.Items[len(page.Items)-1].Seq, exportPage); err != nil {
			slog.WarnContext(r.Context(), "an export of events ended", "job", job.ID, "error", err)
			return nil // what is sent so far is no whole JSON
		}
		page = pages[job.ID]
	}
	if before == "[\n" {
		_, _ = out.WriteString(before)
	}
	_, _ = out.WriteString("\n]\n")
	return nil
}
