package rest

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/reports"
	"github.com/samber/lo"
)

// ReportsInput asks for the reports.
type ReportsInput struct {
	Days int `query:"days" minimum:"1" maximum:"90" default:"7" doc:"How many days retries and flakiness are of."`
}

// ReportFileInput asks for one report as CSV.
type ReportFileInput struct {
	ReportsInput
	Report string `query:"report" required:"true" enum:"dead-letters,waiting,retries,flakiness,retention" doc:"Which report."`
}

type reportSet struct {
	At              time.Time         `json:"at"`
	Days            int               `json:"days"`
	DeadLetters     []deadLetterCount `json:"dead_letters" nullable:"false" doc:"The open dead letters by type, model and failure class, the most frequent first: those of the jobs that were submitted last, up to 10,000."`
	MoreDeadLetters bool              `json:"more_dead_letters" doc:"There are dead letters that were not counted."`
	Waiting         []waitingJob      `json:"waiting" nullable:"false" doc:"The ten queued jobs that have waited longest."`
	Retries         []typeRetries     `json:"retries" nullable:"false" doc:"How often jobs were tried again that completed: the last 10,000 that ended. The types with the highest mean first."`
	Flakiness       []flakiness       `json:"flakiness" nullable:"false" doc:"How reliably jobs run at each provider, region and pool, from the ledger. Within each, the least reliable first."`
	Retention       []kept            `json:"retention" nullable:"false" doc:"How much is kept, and for how long."`
}

type deadLetterCount struct {
	Type         string              `json:"type"`
	Model        string              `json:"model"`
	FailureClass models.FailureClass `json:"failure_class"`
	Count        int                 `json:"count"`
	OldestAt     time.Time           `json:"oldest_at"`
	NewestAt     time.Time           `json:"newest_at"`
}

type waitingJob struct {
	JobID         models.JobID     `json:"job_id"`
	AccountID     models.AccountID `json:"account_id"`
	Type          string           `json:"type"`
	Model         string           `json:"model"`
	Lane          string           `json:"lane"`
	QueuedAt      time.Time        `json:"queued_at"`
	WaitedSeconds float64          `json:"waited_seconds"`
	Reasons       []string         `json:"reasons" nullable:"false" doc:"Why it waits, in sentences, the most important first."`
}

type typeRetries struct {
	Type      string    `json:"type"`
	Completed int       `json:"completed" doc:"How many jobs were examined."`
	Retried   int       `json:"retried" doc:"How many of them had more than one attempt."`
	Retries   int       `json:"retries" doc:"How many attempts they had beyond the first."`
	Mean      float64   `json:"mean" doc:"The same for each job."`
	Most      int       `json:"most" doc:"The retries of the job that had the most."`
	Since     time.Time `json:"since" doc:"When the first of them completed."`
}

type flakiness struct {
	By               string   `json:"by" enum:"provider,region,pool"`
	Name             string   `json:"name" doc:"Empty for workers without a pool."`
	Attempts         int64    `json:"attempts" doc:"How many ended."`
	Completed        int64    `json:"completed" doc:"How many of them completed their jobs."`
	Cancelled        int64    `json:"cancelled" doc:"How many of them ended because their jobs were cancelled."`
	AttemptsPerVideo *float64 `json:"attempts_per_video" doc:"How many attempts each completed job took. Null if none completed."`
	FailureRate      float64  `json:"failure_rate" doc:"The share of the other attempts that did not complete their jobs, 0 to 1, also for preemptions: those whose jobs were cancelled do not count."`
	WastedSeconds    float64  `json:"wasted_seconds"`
}

type kept struct {
	Kind        string     `json:"kind" enum:"jobs,events,dead_letters,files,deletions,workers,machines,webhooks,pool_prices,ledger,audit" doc:"Files are videos, pictures, checkpoints, logs and inputs. Deletions are objects that the store has yet to delete."`
	Rows        int64      `json:"rows"`
	Exact       bool       `json:"exact" doc:"Up to 10,000 rows are counted. Above, it is PostgreSQL's estimate."`
	OldestAt    *time.Time `json:"oldest_at" doc:"The time from which the age of the oldest counts. Null without rows."`
	KeptSeconds *float64   `json:"kept_seconds" doc:"For how long it is kept: from the end of the job for what belongs to one. Null for what is kept for ever."`
	GoesAt      *time.Time `json:"goes_at" doc:"When the oldest goes, unless its job runs or something uses it. Null for what is kept for ever."`
}

type reportsOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         reportSet
}

func (s *service) registerReports(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getReports", Method: http.MethodGet, Path: "/api/v1/reports", Summary: "Read the reports of operators",
		Description: "For operators and viewers: dead letters by type, the jobs that have waited longest, retries, the flakiness of providers, and retention.",
		Errors:      []int{http.StatusTooManyRequests},
	}, func(ctx context.Context, in *ReportsInput) (*reportsOutput, error) {
		set, err := s.reports(ctx, in.Days)
		if err != nil {
			return nil, err
		}
		return &reportsOutput{"no-store", reportSetOf(set)}, nil
	})
	serve(api, huma.Operation{
		OperationID: "getReportFile", Method: http.MethodGet, Path: "/api/v1/reports.csv", Summary: "Read a report of operators as CSV",
		Errors: []int{http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"text/csv": {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(ctx context.Context, in *ReportFileInput) (*costsFile, error) {
		set, err := s.reports(ctx, in.Days)
		if err != nil {
			return nil, err
		}
		var file bytes.Buffer
		if err := set.WriteCSV(&file, in.Report); err != nil {
			return nil, err
		}
		return &costsFile{CacheControl: "no-store", ContentType: "text/csv; charset=utf-8",
			Disposition: `attachment; filename="` + in.Report + `.csv"`, Body: file.Bytes()}, nil
	})
}

func (s *service) reports(ctx context.Context, days int) (*query.ReportSet, error) {
	p := callerOf(ctx).Principal
	ctx, read, err := s.Reads.Shares.Admit(ctx, p, query.TotalsPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	return s.Reads.Reports.Read(ctx, p, days)
}

func reportSetOf(set *query.ReportSet) reportSet {
	known := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return new(t.UTC())
	}
	return reportSet{
		At: set.At.UTC(), Days: set.Days, MoreDeadLetters: set.MoreDeadLetters,
		DeadLetters: lo.Map(set.DeadLetters, func(d *reports.DeadLetters, _ int) deadLetterCount {
			return deadLetterCount{d.Type, d.Model, d.FailureClass, d.Count, d.OldestAt.UTC(), d.NewestAt.UTC()}
		}),
		Waiting: lo.Map(set.Waiting, func(w *query.WaitingJob, _ int) waitingJob {
			return waitingJob{w.Job.ID, w.Job.AccountID, w.Job.Type, w.Job.Model, strings.ToLower(string(w.Job.Lane)), w.Job.QueuedAt.UTC(), w.Seconds,
				w.Sentences()}
		}),
		Retries: lo.Map(set.Retries, func(r *reports.Retries, _ int) typeRetries {
			return typeRetries{r.Type, r.Completed, r.Retried, r.Retries, r.Mean(), r.Most, r.Since.UTC()}
		}),
		Flakiness: lo.Map(set.Flakiness, func(f *query.Flakiness, _ int) flakiness {
			return flakiness{strings.ToLower(string(f.By)), f.Name, f.Attempts, f.Completed, f.Cancelled, f.PerVideo(), f.FailureRate(),
				f.WastedSeconds}
		}),
		Retention: lo.Map(set.Retention, func(k *query.Kept, _ int) kept {
			return kept{strings.ToLower(string(k.Kind)), k.Rows, k.Exact(), known(k.OldestAt), k.KeptSeconds(), known(k.GoesAt())}
		}),
	}
}
