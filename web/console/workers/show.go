package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

const (
	// attemptsShown is the number of attempts on a worker's page, and actsShown that of the acts of
	// operators.
	attemptsShown, actsShown = 30, 20
)

// workerShow is the view of one worker's page.
type workerShow struct {
	workerRow
	// Live is what it runs now, or nil.
	Live *models.Attempt
	// Outcomes count its ended attempts.
	Outcomes []models.AttemptSum
	Attempts []workerAttempt
	Acts     []*access.AuditEntry
	// Keys has the name of the key with which it registered.
	Keys         shell.KeyNames
	Log          *shell.LogTail
	After, Older string
	Now          time.Time
}

// workerAttempt is an ended attempt with its job.
type workerAttempt struct {
	*models.Attempt
	Job *models.Job
}

func (c *controller) workerShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readWorker(r.Context(), p, workerID(r), r.URL.Query().Get("after"))
	if err != nil {
		return err
	}
	// The log is in the object store: only a page that is opened reads it, not each refresh.
	if v.Log, err = c.ReadTail(r.Context(), p, v.newestLog()); err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, workerShowPage(v))
}

func (c *controller) workerShowLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := workerID(r)
	return c.Refresh(w, r, p, "/workers/"+string(id)+"/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readWorker(ctx, p, id, "")
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return workerParts(v)
		}, nil
	})
}

func (c *controller) readWorker(ctx context.Context, p jobs.Principal, id models.WorkerID, after string) (*workerShow, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := &workerShow{After: after}
	if v.workerRow, err = c.workerRow(ctx, p, id); err != nil {
		return nil, err
	}
	if v.Live, err = c.Reads.Fleet.LiveAttempt(ctx, id); err != nil {
		return nil, err
	}
	if v.Outcomes, err = c.Reads.Fleet.WorkerOutcomes(ctx, id); err != nil {
		return nil, err
	}
	if v.Acts, err = c.Reads.Fleet.WorkerActs(ctx, id, actsShown); err != nil {
		return nil, err
	}
	if v.Keys, err = c.KeyNames(ctx, p, string(v.EnrolmentKeyID)); err != nil {
		return nil, err
	}
	page, err := c.Reads.Fleet.WorkerAttempts(ctx, id, paging.Request{First: attemptsShown, After: after})
	if err != nil || len(page.Items) == 0 {
		return v, err
	}
	if page.More {
		v.Older = string(address.Worker(id)) + "?after=" + page.End
	}
	found, err := c.Reads.Jobs.ByID(ctx, p, lo.Map(page.Items, func(a *models.Attempt, _ int) models.JobID { return a.JobID }))
	if err != nil {
		return nil, err
	}
	byID := lo.KeyBy(found, func(j *models.Job) models.JobID { return j.ID })
	for _, a := range page.Items {
		v.Attempts = append(v.Attempts, workerAttempt{a, byID[a.JobID]})
	}
	return v, nil
}

// newestLog returns the log of the newest attempt that has one.
func (v *workerShow) newestLog() models.ArtifactID {
	for _, a := range v.Attempts {
		if a.LogID != "" {
			return a.LogID
		}
	}
	return ""
}

// live returns the address of the page's stream. Only the newest attempts have one.
func (v *workerShow) live() string {
	if v.After != "" || v.over() {
		return ""
	}
	return string(address.Worker(v.ID)) + "/live"
}

// cannotPreempt says why the worker's machine cannot be preempted, or "" if it can.
func (r workerRow) cannotPreempt() string {
	switch {
	case r.over():
		return "The worker is terminated."
	case r.preemptable():
		return ""
	case r.CapacityClass != models.CapacitySpot:
		return "Only spot machines are preempted."
	}
	return "Its provider " + r.Provider + " cannot give notice of a preemption."
}

// spoiled reports whether the attempts were lost or crashed, as the ranking of hosts counts them.
func spoiled(o models.AttemptSum) bool {
	return slices.Contains(capacity.SpoilingClasses, o.FailureClass)
}

// spoiled counts the attempts that the worker lost or crashed.
func (v *workerShow) spoiled() int {
	return lo.SumBy(v.Outcomes, func(o models.AttemptSum) int {
		if spoiled(o) {
			return o.Attempts
		}
		return 0
	})
}

// ended counts all ended attempts.
func (v *workerShow) ended() int {
	return lo.SumBy(v.Outcomes, func(o models.AttemptSum) int { return o.Attempts })
}

// wastedText says how much GPU time was lost: by the attempts that were lost or crashed, which is what
// the ranking of hosts shows, and by all, such as those that were preempted.
func (v *workerShow) wastedText() string {
	var by, all float64
	for _, o := range v.Outcomes {
		all += o.WastedGPUSeconds
		if spoiled(o) {
			by += o.WastedGPUSeconds
		}
	}
	if by == all || v.spoiled() == 0 {
		return shell.GPUSeconds(all) + " wasted"
	}
	return shell.GPUSeconds(by) + " wasted by them, " + shell.GPUSeconds(all) + " by all attempts"
}

// reasonOf returns the reason that an operator gave for an act, or "".
func reasonOf(e *access.AuditEntry) string {
	var payload struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(e.Payload, &payload) != nil {
		return ""
	}
	return payload.Reason
}

// actNames are the acts on workers, in words.
var actNames = map[string]string{
	"drainWorker": "Drained", "terminateWorker": "Terminated", "preemptWorker": "Preempted",
	"quarantineWorker": "Quarantined", "releaseQuarantine": "Released from quarantine",
}

func actName(e *access.AuditEntry) string {
	if name := actNames[e.Action]; name != "" {
		return name
	}
	return e.Action
}

func (c *controller) drainAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.workerAskPage(w, r, p, "drain", "Drain", "It takes no more jobs. Its current job may run for 5 minutes.")
}

func (c *controller) preemptAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.workerAskPage(w, r, p, "preempt", "Preempt", "Its machine ends after 10 s of notice, as a cloud does with spot machines.")
}

func (c *controller) workerAskPage(w http.ResponseWriter, r *http.Request, p jobs.Principal, verb, label, effect string) error {
	row, err := c.workerRow(r.Context(), p, workerID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, workerAskPage(row, verb, label+" "+row.name()+"?", effect))
}

// costText formats an amount of money, or n/a.
func costText(usd *float64) string {
	if usd == nil {
		return ui.Unknown
	}
	return fmt.Sprintf("$%.2f", *usd)
}

// reclaimedText sums up reclamations.
func reclaimedText(found []*capacity.Reclamation) string {
	var workers, interrupted, byOperators int
	var wasted, usd float64
	known := false
	for _, e := range found {
		workers, interrupted, wasted = workers+e.Workers, interrupted+e.Jobs, wasted+e.WastedGPUSeconds
		byOperators += e.ByOperators
		if e.WastedUSD != nil {
			usd, known = usd+*e.WastedUSD, true
		}
	}
	cost := ui.Unknown
	if known {
		cost = costText(&usd)
	}
	drills := ""
	if byOperators > 0 {
		drills = fmt.Sprintf(" (%d of them by operators)", byOperators)
	}
	return fmt.Sprintf("%s taken, %s interrupted%s, %s of GPU time wasted, which cost %s.",
		text.Count(workers, "worker"), text.Count(interrupted, "job"), drills, shell.GPUSeconds(wasted), cost)
}
