package console

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
)

// jobConfig is what the pages of jobs: the list, a job, its log, submission, gallery, takes and saved views read and call.
type jobConfig struct {
	Watcher   *watch.Watcher
	Reader    *query.Reader
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Deleter   *operate.Deleter
	Operator  *operate.Operator
	Letters   *operate.DeadLetters
	Retrier   *operate.Retrier
	// Logs reads stored logs; nil if pages show none.
	Logs Logs
}

// jobController serves the pages of jobs: the list, a job, its log, submission, gallery, takes and saved views.
type jobController struct {
	*console
	jobConfig
	jobPages feeds[*jobView]
}

// jobRoutes lists the pages of jobs: the list, a job, its log, submission, gallery, takes and saved views.
func jobRoutes(pages *console, config jobConfig) []route {
	c := &jobController{console: pages, jobConfig: config}
	return []route{
		{pattern: "GET /jobs", serve: c.jobList},
		{pattern: "GET /jobs/live", serve: c.jobListLive},
		{pattern: "GET /jobs/export.csv", serve: c.jobExport},
		{pattern: "GET /jobs/export.jsonl", serve: c.jobExport},
		{pattern: "GET /jobs/suggest", serve: c.searchSuggest},
		{pattern: "GET /jobs/search-help", serve: c.searchHelp},
		{pattern: "GET /jobs/new", serve: c.jobNew},
		{pattern: "POST /jobs/estimate", serve: c.jobEstimate, back: "/jobs/new"},
		{pattern: "POST /jobs/new", serve: c.jobSubmit, back: "/jobs/new", files: true},
		{pattern: "GET /jobs/{id}", serve: c.jobShow},
		{pattern: "GET /jobs/{id}/live", serve: c.jobLive},
		{pattern: "GET /jobs/{id}/video", serve: c.jobVideo, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/cancel", serve: c.askJob((*jobAction).cancellable, jobCancelPage), back: "/jobs/{id}"},
		{pattern: "POST /jobs/{id}/cancel", serve: c.jobCancel, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/retry", serve: c.askJob((*jobAction).retryable, jobRetryPage), back: "/jobs/{id}"},
		{pattern: "POST /jobs/{id}/retry", serve: c.jobRetry, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/redrive", serve: c.askJob((*jobAction).redrivable, jobRedrivePage), back: "/jobs/{id}"},
		{pattern: "POST /jobs/{id}/redrive", serve: c.jobRedrive, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/order", serve: c.askJob((*jobAction).open, jobOrderPage), back: "/jobs/{id}"},
		{pattern: "POST /jobs/{id}/order", serve: c.jobOrder, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/delete", serve: c.askJob((*jobAction).deletable, jobDeletePage), back: "/jobs/{id}"},
		{pattern: "POST /jobs/{id}/delete", serve: c.jobDelete, back: "/jobs/{id}"},
		{pattern: "POST /jobs/{id}/continue", serve: c.jobContinue, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/log/{attempt}", serve: c.jobLog, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/raw", serve: c.jobRaw, back: "/jobs/{id}"},
		{pattern: "GET /jobs/{id}/events.json", serve: c.jobEventsExport, back: "/jobs/{id}"},
		{pattern: "GET /artifacts/{id}", serve: c.artifact},
		{pattern: "GET /views", serve: c.viewList, back: "/jobs"},
		{pattern: "GET /views/new", serve: c.viewNew, back: "/jobs"},
		{pattern: "POST /views/new", serve: c.viewSave, back: "/views"},
		{pattern: "GET /views/{id}/edit", serve: c.viewEdit, back: "/views"},
		{pattern: "POST /views/{id}/edit", serve: c.viewSave, back: "/views"},
		{pattern: "GET /views/{id}/delete", serve: c.viewConfirm, back: "/views"},
		{pattern: "POST /views/{id}/delete", serve: c.viewDelete, back: "/views"},
		{pattern: "GET /takes/{id}", serve: c.takes, back: "/jobs"},
		{pattern: "GET /takes/{id}/live", serve: c.takesLive},
		{pattern: "GET /takes/{id}/discard", serve: c.takesConfirm, back: "/takes/{id}"},
		{pattern: "POST /takes/{id}/discard", serve: c.takesDiscard, back: "/takes/{id}"},
		{pattern: "GET /gallery", serve: c.gallery},
	}
}
