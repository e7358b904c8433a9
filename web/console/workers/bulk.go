package workers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// maxPicked is the number of workers that one form acts on: its address has their ids, and stays
// below the 8 kB that proxies accept.
const maxPicked = 100

// workerVerb is an action on several workers.
type workerVerb struct {
	name, label, done string
	danger            bool
	// why says why a worker is left out, or "".
	why func(row workerRow, now time.Time) string
	// effect says what will happen to a worker.
	effect func(row workerRow) string
	act    func(ctx context.Context, operator *fleet.WorkerOperator, p jobs.Principal, id models.WorkerID, form url.Values) error
}

var workerVerbs = []workerVerb{
	{name: "drain", label: "Drain", done: "Draining", why: func(row workerRow, _ time.Time) string {
		switch {
		case row.over():
			return "It is terminated."
		case !row.drainable():
			return "It is " + ui.Words(string(row.Status)) + ": it takes no jobs already."
		}
		return ""
	}, effect: func(row workerRow) string {
		if row.Job == nil {
			return "It leaves at once."
		}
		return fmt.Sprintf("Its job, at %s, may run for 5 min; then it is handed over with a checkpoint.", ui.Percent(row.Job.Percent))
	}, act: func(ctx context.Context, operator *fleet.WorkerOperator, p jobs.Principal, id models.WorkerID, _ url.Values) error {
		_, err := operator.DrainWorker(ctx, p, id, drainWithin)
		return err
	}},
	{name: "preempt", label: "Preempt", done: "Preempting", danger: true, why: func(row workerRow, _ time.Time) string {
		return row.cannotPreempt()
	}, effect: func(row workerRow) string {
		return "Its machine ends after 10 s of notice, with all workers on it. " + row.afterDrain()
	}, act: func(ctx context.Context, operator *fleet.WorkerOperator, p jobs.Principal, id models.WorkerID, _ url.Values) error {
		_, err := operator.PreemptWorker(ctx, p, id, preemptNotice)
		return err
	}},
	{name: "quarantine", label: "Quarantine", done: "Quarantined", why: overWhy, effect: func(row workerRow) string {
		if row.Job == nil {
			return "No worker on its machine gets a job until the quarantine ends."
		}
		return "No worker on its machine gets another job until the quarantine ends. Its current job continues."
	}, act: func(ctx context.Context, operator *fleet.WorkerOperator, p jobs.Principal, id models.WorkerID, form url.Values) error {
		minutes, err := strconv.Atoi(strings.TrimSpace(form.Get("minutes")))
		if err != nil {
			return apierror.Invalid("minutes", "Minutes must be a whole number.")
		}
		_, err = operator.QuarantineWorker(ctx, p, id, minutes, strings.TrimSpace(form.Get("reason")))
		return err
	}},
	{name: "release", label: "Release", done: "Released", why: func(row workerRow, now time.Time) string {
		if !row.Quarantined(now) {
			return "Its host is not in quarantine."
		}
		return overWhy(row, now)
	}, effect: func(workerRow) string { return "The workers on its machine get jobs again." },
		act: func(ctx context.Context, operator *fleet.WorkerOperator, p jobs.Principal, id models.WorkerID, _ url.Values) error {
			_, err := operator.ReleaseQuarantine(ctx, p, id)
			return err
		}},
	{name: "terminate", label: "Terminate", done: "Terminated", danger: true, why: overWhy, effect: func(row workerRow) string {
		if row.Hosted {
			return "Its machine ends now, without notice, unless other workers run on it. " + row.afterDrain()
		}
		return "Reelay stops using it; the machine keeps running until you stop it. " + row.afterDrain()
	}, act: func(ctx context.Context, operator *fleet.WorkerOperator, p jobs.Principal, id models.WorkerID, _ url.Values) error {
		_, err := operator.TerminateWorker(ctx, p, id)
		return err
	}},
}

// overWhy says that a worker is terminated, if it is.
func overWhy(row workerRow, _ time.Time) string {
	if row.over() {
		return "It is terminated."
	}
	return ""
}

// afterDrain says what becomes of the worker's job.
func (r workerRow) afterDrain() string {
	if r.Job == nil {
		return "It holds no job."
	}
	return fmt.Sprintf("Its job, at %s, is queued again and resumes from its last checkpoint.", ui.Percent(r.Job.Percent))
}

// workerPick is the view of the page that confirms an action on several workers.
type workerPick struct {
	*workerVerb
	// Acts are the workers that it acts on, and Skips the others with the reason.
	Acts  []workerRow
	Skips []workerSkip
	// Missing counts the ids of which there is no worker.
	Missing         int
	Minutes, Reason string
	Problem         string
}

type workerSkip struct {
	workerRow
	Why string
}

// workerPicks returns the verb and the workers that a form names.
func workerPicks(form url.Values) (*workerVerb, []models.WorkerID, error) {
	at := slices.IndexFunc(workerVerbs, func(v workerVerb) bool { return v.name == form.Get("verb") })
	if at < 0 {
		return nil, nil, apierror.Invalid("verb", "There is no such action on workers.")
	}
	var ids []models.WorkerID
	for _, id := range form["id"] {
		if id := models.WorkerID(id); id.Valid() && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > maxPicked {
		return nil, nil, apierror.Invalid("id", "At most %d workers can be chosen at once; there are %d.", maxPicked, len(ids))
	}
	return &workerVerbs[at], ids, nil
}

// workersConfirm says what an action will do to each of the chosen workers.
func (c *controller) workersConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readPicks(r.Context(), p, r.URL.Query())
	if err != nil {
		return err
	}
	v.Minutes = "30"
	return shell.Render(w, r, http.StatusOK, workerPickPage(v))
}

func (c *controller) readPicks(ctx context.Context, p jobs.Principal, form url.Values) (*workerPick, error) {
	verb, ids, err := workerPicks(form)
	if err != nil {
		return nil, err
	}
	v := &workerPick{workerVerb: verb, Minutes: form.Get("minutes"), Reason: form.Get("reason")}
	found, err := c.Reads.Fleet.WorkersByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b *models.Worker) int { return strings.Compare(string(b.ID), string(a.ID)) })
	pools, err := c.Reads.Fleet.Pools(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := ReadRows(ctx, c.Reads, p, c.Fleet, found, pools)
	if err != nil {
		return nil, err
	}
	v.Missing = len(ids) - len(rows)
	now := time.Now()
	for _, row := range rows {
		if why := verb.why(row, now); why != "" {
			v.Skips = append(v.Skips, workerSkip{row, why})
		} else {
			v.Acts = append(v.Acts, row)
		}
	}
	return v, nil
}

// workersAct acts on the chosen workers, one after the other. What changed since the page was shown
// is left out, and counted.
func (c *controller) workersAct(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v, err := c.readPicks(r.Context(), p, r.PostForm)
	if err != nil {
		return err
	}
	var first *apierror.Error
	done, refused := 0, len(v.Skips)+v.Missing
	for _, row := range v.Acts {
		err := v.act(r.Context(), c.Fleet, p, row.ID, r.PostForm)
		var known *apierror.Error
		switch {
		case err == nil:
			done++
			continue
		case !errors.As(err, &known):
			return err
		case known.Code == apierror.CodeInvalidInput: // the form is wrong, for all of them
			v.Problem = known.Message
			return shell.Render(w, r, http.StatusUnprocessableEntity, workerPickPage(v))
		case known.Code != apierror.CodeConflict && known.Code != apierror.CodeNotFound:
			return err
		}
		if refused++; first == nil {
			first = known
		}
	}
	message := fmt.Sprintf("%s %s.", v.done, text.Count(done, "worker"))
	if refused > 0 {
		message += fmt.Sprintf(" %d left out.", refused)
	}
	if first != nil {
		message += " " + first.Message
	}
	return c.Done(w, r, "/workers", message)
}
