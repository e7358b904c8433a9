package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/door"
)

// New returns the console. It responds to unknown paths with its error page.
func New(config Config) http.Handler {
	config.CheckLoginsEvery = cmp.Or(config.CheckLoginsEvery, checkLoginsEvery)
	c := &console{Config: config, policy: contentPolicy(config.ObjectsOrigin), attempts: newAttempts(), restAPI: readOpenAPI(config.OpenAPI)}
	mux := http.NewServeMux()
	for _, route := range c.routes() {
		mux.Handle(route.pattern, c.page(route))
	}
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, errCrossOrigin, sectionOf(r.URL.Path))
	}))
	return compressed(c.secured(origin.Handler(mux)))
}

// page handles a request of a logged-in operator. If it returns an error, it must not
// have written anything: the console shows the error page.
type page func(w http.ResponseWriter, r *http.Request, p jobs.Principal) error

type route struct {
	pattern string
	serve   page
	// open pages need no login. Their principal is empty.
	open bool
	// admin pages are for ADMIN. The others are for VIEWER to read and for OPERATOR to act.
	admin bool
	// own actions concern the caller's own login, so VIEWER may perform them, too.
	own bool
	// files means that the form may have files.
	files bool
	// back is the address of the page with the button of this action. The console
	// returns to it after a login, or if the action fails.
	back string
}

// backFrom returns the address of the page to return to after a failed request.
func (r route) backFrom(req *http.Request) string {
	if r.back != "" {
		return strings.ReplaceAll(r.back, "{id}", url.PathEscape(req.PathValue("id")))
	}
	return sectionOf(req.URL.Path)
}

// routes lists all pages of the console.
func (c *console) routes() []route {
	return []route{
		{pattern: "GET /login", serve: c.loginForm, open: true},
		{pattern: "POST /login", serve: c.logIn, open: true},
		{pattern: "POST /logout", serve: c.logOut, open: true},
		{pattern: "GET /login/sso", serve: c.ssoBegin, open: true},
		{pattern: "GET /login/sso/callback", serve: c.ssoFinish, open: true},
		{pattern: "GET /join/{token}", serve: c.join, open: true},
		{pattern: "POST /join/{token}", serve: c.joined, open: true},
		{pattern: "GET /static/", serve: c.static, open: true},
		{pattern: "GET /graphql", serve: c.graphiql, open: true},
		{pattern: "GET /api/docs", serve: c.apiDocs, open: true},

		{pattern: "GET /{$}", serve: c.home},
		{pattern: "GET /keyboard", serve: c.keyboard},
		{pattern: "GET /overview", serve: c.overview},
		{pattern: "GET /overview/live", serve: c.overviewLive},
		{pattern: "GET /overview/charts", serve: c.overviewCharts},
		{pattern: "GET /heatmap", serve: c.heatMap},
		{pattern: "GET /heatmap/live", serve: c.heatMapLive},
		{pattern: "GET /heatmap/charts", serve: c.heatCharts},
		{pattern: "GET /doctor", serve: c.doctor},
		{pattern: "GET /doctor/live", serve: c.doctorLive},
		{pattern: "POST /doctor", serve: c.doctorRun, back: "/doctor"},
		{pattern: "GET /system", serve: c.system},
		{pattern: "GET /system/live", serve: c.systemLive},
		{pattern: "GET /system/halt", serve: c.haltAsk},
		{pattern: "POST /system/halt", serve: c.halt, back: "/system/halt"},
		{pattern: "POST /system/resume", serve: c.resume, back: "/system"},

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

		{pattern: "GET /bulk", serve: c.bulkList},
		{pattern: "GET /bulk/live", serve: c.bulkListLive},
		{pattern: "GET /bulk/new", serve: c.bulkConfirm, back: "/jobs"},
		{pattern: "POST /bulk/new", serve: c.bulkStart, back: "/jobs"},
		{pattern: "GET /bulk/{id}", serve: c.bulkShow, back: "/bulk"},
		{pattern: "GET /bulk/{id}/live", serve: c.bulkShowLive},
		{pattern: "POST /bulk/{id}/pause", serve: c.bulkSteer, back: "/bulk/{id}"},
		{pattern: "POST /bulk/{id}/resume", serve: c.bulkSteer, back: "/bulk/{id}"},
		{pattern: "POST /bulk/{id}/cancel", serve: c.bulkSteer, back: "/bulk/{id}"},

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

		{pattern: "GET /webhooks", serve: c.webhookList},
		{pattern: "GET /webhooks/new", serve: c.webhookNew},
		{pattern: "POST /webhooks/new", serve: c.webhookCreate, back: "/webhooks/new"},
		{pattern: "GET /webhooks/{id}", serve: c.webhookShow, back: "/webhooks"},
		{pattern: "GET /webhooks/{id}/rotate", serve: c.webhookRotateAsk, back: "/webhooks"},
		{pattern: "POST /webhooks/{id}/rotate", serve: c.webhookRotate, back: "/webhooks/{id}"},
		{pattern: "GET /webhooks/{id}/delete", serve: c.webhookDeleteAsk, back: "/webhooks"},
		{pattern: "POST /webhooks/{id}/delete", serve: c.webhookDelete, back: "/webhooks"},
		{pattern: "POST /webhooks/{id}/enable", serve: c.webhookEnable, back: "/webhooks/{id}"},
		{pattern: "GET /webhooks/{id}/disable", serve: c.webhookDisableAsk, back: "/webhooks/{id}"},
		{pattern: "POST /webhooks/{id}/disable", serve: c.webhookDisable, back: "/webhooks/{id}"},
		{pattern: "POST /webhooks/{id}/test", serve: c.webhookTest, back: "/webhooks/{id}"},
		{pattern: "POST /webhooks/deliveries/{id}/redeliver", serve: c.redeliver, back: "/webhooks"},

		{pattern: "GET /workers", serve: c.workerList},
		{pattern: "GET /workers/live", serve: c.workerListLive},
		{pattern: "GET /workers/act", serve: c.workersConfirm, back: "/workers"},
		{pattern: "POST /workers/act", serve: c.workersAct, back: "/workers"},
		{pattern: "GET /workers/{id}", serve: c.workerShow, back: "/workers"},
		{pattern: "GET /workers/{id}/live", serve: c.workerShowLive},
		{pattern: "GET /workers/{id}/drain", serve: c.drainAsk, back: "/workers"},
		{pattern: "GET /workers/{id}/preempt", serve: c.preemptAsk, back: "/workers"},
		{pattern: "POST /workers/{id}/drain", serve: c.workerDrain, back: "/workers"},
		{pattern: "POST /workers/{id}/preempt", serve: c.workerPreempt, back: "/workers"},
		{pattern: "GET /workers/{id}/quarantine", serve: c.quarantineAsk},
		{pattern: "POST /workers/{id}/quarantine", serve: c.quarantineStart, back: "/workers"},
		{pattern: "POST /workers/{id}/release", serve: c.quarantineEnd, back: "/workers"},
		{pattern: "GET /workers/{id}/terminate", serve: c.workerConfirm},
		{pattern: "POST /workers/{id}/terminate", serve: c.workerTerminate, back: "/workers"},

		{pattern: "GET /dead-letters", serve: c.deadLetterList},
		{pattern: "GET /dead-letters/live", serve: c.deadLetterListLive},
		{pattern: "GET /dead-letters/group", serve: c.deadLetterGroup, back: "/dead-letters"},
		{pattern: "GET /dead-letters/group/live", serve: c.deadLetterGroupLive},
		{pattern: "GET /dead-letters/group/redrive", serve: c.causeRedriveAsk, back: "/dead-letters"},
		{pattern: "POST /dead-letters/group/redrive", serve: c.causeRedrive, back: "/dead-letters"},
		{pattern: "GET /dead-letters/group/discard", serve: c.causeDiscardAsk, back: "/dead-letters"},
		{pattern: "POST /dead-letters/group/discard", serve: c.causeDiscard, back: "/dead-letters"},
		{pattern: "GET /dead-letters/{id}", serve: c.deadLetterShow, back: "/dead-letters"},
		{pattern: "GET /dead-letters/{id}/redrive", serve: c.redriveAsk, back: "/dead-letters/{id}"},
		{pattern: "POST /dead-letters/{id}/redrive", serve: c.redrive, back: "/dead-letters/{id}"},
		{pattern: "GET /dead-letters/{id}/discard", serve: c.discardAsk, back: "/dead-letters/{id}"},
		{pattern: "POST /dead-letters/{id}/discard", serve: c.discard, back: "/dead-letters/{id}"},

		{pattern: "GET /queues", serve: c.queueList},
		{pattern: "GET /queues/charts", serve: c.queueCharts},
		{pattern: "GET /queues/{lane}/charts", serve: c.queueCharts},
		{pattern: "GET /queues/live", serve: c.queueListLive},
		{pattern: "GET /queues/{lane}", serve: c.queueShow, back: "/queues"},
		{pattern: "GET /queues/{lane}/live", serve: c.queueShowLive},
		{pattern: "GET /queues/{lane}/pause", serve: c.queueConfirm},
		{pattern: "POST /queues/{lane}/pause", serve: c.queuePause, back: "/queues"},
		{pattern: "POST /queues/{lane}/resume", serve: c.queueResume, back: "/queues"},

		{pattern: "GET /pools", serve: c.poolList},
		{pattern: "GET /pools/live", serve: c.poolListLive},
		{pattern: "GET /pools/new", serve: c.poolNew},
		{pattern: "POST /pools/new", serve: c.poolCreate, back: "/pools/new"},
		{pattern: "GET /pools/{id}", serve: c.poolShow},
		{pattern: "GET /pools/{id}/live", serve: c.poolShowLive},
		{pattern: "GET /pools/{id}/edit", serve: c.poolEdit, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/edit", serve: c.poolUpdate, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/pause", serve: c.poolPause, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/resume", serve: c.poolResume, back: "/pools/{id}"},
		{pattern: "GET /pools/{id}/delete", serve: c.poolConfirm, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/delete", serve: c.poolDelete, back: "/pools/{id}"},

		{pattern: "GET /models", serve: c.modelList},
		{pattern: "GET /models/apply", serve: c.modelApplyForm, admin: true},
		{pattern: "POST /models/apply", serve: c.modelApply, admin: true, back: "/models/apply"},
		{pattern: "GET /models/show/{id}", serve: c.modelShow},
		{pattern: "GET /models/show/{id}/remove", serve: c.modelConfirm, admin: true},
		{pattern: "POST /models/show/{id}/remove", serve: c.modelRemove, admin: true, back: "/models"},
		{pattern: "POST /models/show/{id}/restore", serve: c.modelRestore, admin: true, back: "/models"},

		{pattern: "GET /schedules", serve: c.scheduleList},
		{pattern: "GET /schedules/live", serve: c.scheduleListLive},
		{pattern: "GET /schedules/new", serve: c.scheduleNew},
		{pattern: "POST /schedules/new", serve: c.scheduleSend, back: "/schedules/new"},
		{pattern: "POST /schedules/preview", serve: c.schedulePreview, back: "/schedules/new"},
		{pattern: "GET /schedules/{id}", serve: c.scheduleShow},
		{pattern: "GET /schedules/{id}/edit", serve: c.scheduleEdit, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/edit", serve: c.scheduleSend, back: "/schedules/{id}/edit"},
		{pattern: "GET /schedules/{id}/pause", serve: c.schedulePauseAsk, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/pause", serve: c.schedulePause, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/resume", serve: c.scheduleResume, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/trigger", serve: c.scheduleTrigger, back: "/schedules/{id}"},
		{pattern: "GET /schedules/{id}/delete", serve: c.scheduleDeleteAsk, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/delete", serve: c.scheduleDelete, back: "/schedules/{id}"},

		{pattern: "GET /workflows", serve: c.workflowList},
		{pattern: "GET /workflows/live", serve: c.workflowListLive},
		{pattern: "GET /workflows/{id}", serve: c.workflowShow},
		{pattern: "GET /workflows/{id}/live", serve: c.workflowShowLive},
		{pattern: "GET /workflows/{id}/cancel", serve: c.workflowCancelAsk, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/cancel", serve: c.workflowCancel, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/retry", serve: c.workflowRetry, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/skip", serve: c.workflowSkip, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/override", serve: c.workflowOverride, back: "/workflows/{id}"},

		{pattern: "GET /alerts", serve: c.alertList},
		{pattern: "GET /alerts/live", serve: c.alertListLive},
		{pattern: "GET /alerts/rules/{name}", serve: c.alertRule},
		{pattern: "POST /alerts/{id}/acknowledge", serve: c.alertAcknowledge, back: "/alerts"},
		{pattern: "GET /alerts/silence", serve: c.silenceAsk},
		{pattern: "POST /alerts/silence", serve: c.silenceStart, back: "/alerts/silence"},
		{pattern: "POST /alerts/silence/{id}/end", serve: c.silenceEnd, back: "/alerts"},
		{pattern: "POST /alerts/routes/{name}/test", serve: c.routeTest, back: "/alerts"},

		{pattern: "GET /accounts", serve: c.accountList},
		{pattern: "GET /accounts/new", serve: c.accountNew, admin: true},
		{pattern: "POST /accounts/new", serve: c.accountCreate, admin: true, back: "/accounts/new"},
		{pattern: "GET /accounts/{id}/edit", serve: c.accountEdit, back: "/accounts"},
		{pattern: "POST /accounts/{id}/edit", serve: c.accountUpdate, back: "/accounts/{id}/edit"},

		{pattern: "GET /members", serve: c.memberList, admin: true},
		{pattern: "POST /members", serve: c.memberCreate, admin: true, back: "/members"},
		{pattern: "GET /members/{id}", serve: c.memberShow, admin: true, back: "/members"},
		{pattern: "POST /members/{id}", serve: c.memberUpdate, admin: true, back: "/members/{id}"},
		{pattern: "POST /members/{id}/disable", serve: c.memberDisable, admin: true, back: "/members/{id}"},
		{pattern: "POST /members/{id}/enable", serve: c.memberEnable, admin: true, back: "/members/{id}"},
		{pattern: "POST /members/{id}/reset", serve: c.memberReset, admin: true, back: "/members/{id}"},

		{pattern: "GET /keys", serve: c.keyList, admin: true},
		{pattern: "GET /keys/new", serve: c.keyNew, admin: true},
		{pattern: "POST /keys/new", serve: c.keyCreate, admin: true, back: "/keys/new"},
		{pattern: "GET /keys/{id}/revoke", serve: c.keyConfirm, admin: true, back: "/keys"},
		{pattern: "POST /keys/{id}/revoke", serve: c.keyRevoke, admin: true, back: "/keys"},

		{pattern: "GET /audit", serve: c.auditList, admin: true},
		{pattern: "GET /changes", serve: c.changeList},

		{pattern: "GET /me", serve: c.me},
		{pattern: "POST /me/password", serve: c.changePassword, own: true, back: "/me"},
		{pattern: "POST /me/logout", serve: c.logOutEverywhere, own: true, back: "/me"},

		{pattern: "/asynqmon", serve: c.monitor},
		{pattern: "/asynqmon/", serve: c.monitor},
		{pattern: "/", serve: c.unknown, open: true},
	}
}

// Pages returns the patterns of all pages that are read, for measurements.
func Pages() []string {
	var all []string
	for _, route := range new(console).routes() {
		if strings.HasPrefix(route.pattern, "GET ") {
			all = append(all, route.pattern)
		}
	}
	return all
}

// page checks the login of a request, runs its handler, and shows its error.
func (c *console) page(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := int64(maxForm)
		if route.files && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
			limit = maxFiles
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		door.Serve(w, r, func(w http.ResponseWriter) error {
			var p jobs.Principal
			r = c.visited(r, p)
			defer func() { forgetFiles(r) }()
			if !route.open {
				var err error
				if p, err = c.principal(r); err != nil {
					return err
				}
				if r, err = c.visitedBy(r, p); err != nil { // the error page needs it, too
					return err
				}
				if err := route.admit(r.Method, p); err != nil {
					return err
				}
				// asynqmon, whose patterns name no method, knows no token: its origin is checked.
				if strings.HasPrefix(route.pattern, "POST ") {
					if err := visitOf(r.Context()).checkForm(r); err != nil {
						return err
					}
				}
			}
			return route.serve(w, r, p)
		}, func(w http.ResponseWriter, err error) {
			back := route.backFrom(r)
			switch {
			case errors.Is(err, apierror.ErrUnauthenticated) && asksForPage(r):
				http.Redirect(w, r, loginPath(r.URL.RequestURI()), http.StatusSeeOther)
			case errors.Is(err, apierror.ErrUnauthenticated) && route.back != "" && r.Method == http.MethodPost:
				http.Redirect(w, r, loginPath(back), http.StatusSeeOther)
			default:
				c.fail(w, r, err, back)
			}
		})
	})
}

func (c *console) unknown(http.ResponseWriter, *http.Request, jobs.Principal) error {
	return errNoPage
}
