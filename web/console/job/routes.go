package job

import "github.com/reelay/reelay/web/console/shell"

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config}
	return []shell.Route{
		{Pattern: "GET /jobs", Serve: c.jobList},
		{Pattern: "GET /jobs/live", Serve: c.jobListLive},
		{Pattern: "GET /jobs/export.csv", Serve: c.jobExport},
		{Pattern: "GET /jobs/export.jsonl", Serve: c.jobExport},
		{Pattern: "GET /jobs/suggest", Serve: c.searchSuggest},
		{Pattern: "GET /jobs/search-help", Serve: c.searchHelp},
		{Pattern: "GET /jobs/new", Serve: c.jobNew},
		{Pattern: "POST /jobs/estimate", Serve: c.jobEstimate, Back: "/jobs/new"},
		{Pattern: "POST /jobs/new", Serve: c.jobSubmit, Back: "/jobs/new", Files: true},
		{Pattern: "GET /jobs/{id}", Serve: c.jobShow},
		{Pattern: "GET /jobs/{id}/live", Serve: c.jobLive},
		{Pattern: "GET /jobs/{id}/video", Serve: c.jobVideo, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/cancel", Serve: c.askJob((*jobAction).cancellable, jobCancelPage), Back: "/jobs/{id}"},
		{Pattern: "POST /jobs/{id}/cancel", Serve: c.jobCancel, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/retry", Serve: c.askJob((*jobAction).retryable, jobRetryPage), Back: "/jobs/{id}"},
		{Pattern: "POST /jobs/{id}/retry", Serve: c.jobRetry, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/redrive", Serve: c.askJob((*jobAction).redrivable, jobRedrivePage), Back: "/jobs/{id}"},
		{Pattern: "POST /jobs/{id}/redrive", Serve: c.jobRedrive, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/order", Serve: c.askJob((*jobAction).open, jobOrderPage), Back: "/jobs/{id}"},
		{Pattern: "POST /jobs/{id}/order", Serve: c.jobOrder, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/delete", Serve: c.askJob((*jobAction).deletable, jobDeletePage), Back: "/jobs/{id}"},
		{Pattern: "POST /jobs/{id}/delete", Serve: c.jobDelete, Back: "/jobs/{id}"},
		{Pattern: "POST /jobs/{id}/continue", Serve: c.jobContinue, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/log/{attempt}", Serve: c.jobLog, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/raw", Serve: c.jobRaw, Back: "/jobs/{id}"},
		{Pattern: "GET /jobs/{id}/events.json", Serve: c.jobEventsExport, Back: "/jobs/{id}"},
		{Pattern: "GET /artifacts/{id}", Serve: c.artifact},
		{Pattern: "GET /views", Serve: c.viewList, Back: "/jobs"},
		{Pattern: "GET /views/new", Serve: c.viewNew, Back: "/jobs"},
		{Pattern: "POST /views/new", Serve: c.viewSave, Back: "/views"},
		{Pattern: "GET /views/{id}/edit", Serve: c.viewEdit, Back: "/views"},
		{Pattern: "POST /views/{id}/edit", Serve: c.viewSave, Back: "/views"},
		{Pattern: "GET /views/{id}/delete", Serve: c.viewConfirm, Back: "/views"},
		{Pattern: "POST /views/{id}/delete", Serve: c.viewDelete, Back: "/views"},
		{Pattern: "GET /takes/{id}", Serve: c.takes, Back: "/jobs"},
		{Pattern: "GET /takes/{id}/live", Serve: c.takesLive},
		{Pattern: "GET /takes/{id}/discard", Serve: c.takesConfirm, Back: "/takes/{id}"},
		{Pattern: "POST /takes/{id}/discard", Serve: c.takesDiscard, Back: "/takes/{id}"},
		{Pattern: "GET /gallery", Serve: c.gallery},
	}
}
