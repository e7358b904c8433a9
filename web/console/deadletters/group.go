package deadletters

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

const (
	// deadLettersShown is the number of dead letters on a page.
	deadLettersShown = 50
	// hostsOfCause is how many of a cause's newest dead letters its page examines for their hosts.
	hostsOfCause = 200
)

// deadLetterGroup is the view of the page about the dead letters with one cause.
type deadLetterGroup struct {
	*models.DeadLetterGroup
	Hosts       []*models.FailingHost
	DeadLetters []deadLetterRow
	Log         *shell.LogTail
	// Operations are the unfinished bulk operations that redrive these dead letters.
	Operations   []*joblist.BulkOperation
	After, Older string
	Now          time.Time
}

// deadLetterRow is one dead letter with its job, and the worker of its last attempt.
type deadLetterRow struct {
	*models.DeadLetter
	Job    *models.Job
	Worker *models.Worker
}

// causeAsked is what the address of a page about one cause names.
type causeAsked struct {
	fingerprint string
	resolved    bool
	after       string
}

func causeOf(r *http.Request) causeAsked {
	q := r.URL.Query()
	return causeAsked{q.Get("cause"), q.Get("resolved") != "", q.Get("after")}
}

func (c *controller) deadLetterGroup(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readCause(r.Context(), p, causeOf(r))
	if err != nil {
		return err
	}
	// The log is in the object store: only a page that is opened reads it, not each refresh.
	if len(v.DeadLetters) > 0 {
		if v.Log, err = c.ReadTail(r.Context(), p, v.sample()); err != nil {
			return err
		}
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, deadLetterGroupPage(v))
}

func (c *controller) deadLetterGroupLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := causeOf(r)
	asked.after = ""
	return c.Refresh(w, r, p, address.Cause("/live", asked.fingerprint, asked.resolved),
		func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
			v, err := c.readCause(ctx, p, asked)
			if err != nil {
				return nil, err
			}
			return func(now time.Time) templ.Component {
				v.Now = now
				return causeLetters(v)
			}, nil
		})
}

func (c *controller) readCause(ctx context.Context, p jobs.Principal, asked causeAsked) (*deadLetterGroup, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := &deadLetterGroup{After: asked.after}
	if v.DeadLetterGroup, err = c.causeOrNone(ctx, asked); err != nil {
		return nil, err
	}
	hosts, err := c.Reads.DeadLetters.FailingHosts(ctx, []string{asked.fingerprint}, asked.resolved, hostsOfCause)
	if err != nil {
		return nil, err
	}
	v.Hosts = hosts[asked.fingerprint]
	filter := models.DeadLetterFilter{Fingerprint: asked.fingerprint, Resolved: asked.resolved}
	page, err := c.Reads.DeadLetters.List(ctx, filter, paging.Request{First: deadLettersShown, After: asked.after})
	if err != nil {
		return nil, err
	}
	if page.More {
		v.Older = address.Cause("", asked.fingerprint, asked.resolved) + "&after=" + page.End
	}
	if v.DeadLetters, err = c.deadLetterRows(ctx, p, page.Items); err != nil {
		return nil, err
	}
	v.Operations, err = c.redrivesOf(ctx, p, asked.fingerprint)
	return v, err
}

// causeOrNone returns the dead letters with a cause. If none is open any more, because all were
// resolved while the page was shown, it returns the resolved ones with the count 0.
func (c *controller) causeOrNone(ctx context.Context, asked causeAsked) (*models.DeadLetterGroup, error) {
	group, err := c.Reads.DeadLetters.Group(ctx, asked.fingerprint, asked.resolved)
	if err == nil || asked.resolved {
		return group, err
	}
	resolved, other := c.Reads.DeadLetters.Group(ctx, asked.fingerprint, true)
	if other != nil {
		return nil, err
	}
	resolved.Count, resolved.Resolved = 0, false
	return resolved, nil
}

func (c *controller) deadLetterRows(ctx context.Context, p jobs.Principal, letters []*models.DeadLetter) ([]deadLetterRow, error) {
	if len(letters) == 0 {
		return nil, nil
	}
	ids := lo.Map(letters, func(d *models.DeadLetter, _ int) models.JobID { return d.JobID })
	found, err := c.Reads.Jobs.ByID(ctx, p, ids)
	if err != nil {
		return nil, err
	}
	byID := lo.KeyBy(found, func(j *models.Job) models.JobID { return j.ID })
	workers, err := c.Reads.DeadLetters.Workers(ctx, letters)
	if err != nil {
		return nil, err
	}
	var rows []deadLetterRow
	for _, d := range letters {
		rows = append(rows, deadLetterRow{d, byID[d.JobID], workers[d.ID]})
	}
	return rows, nil
}

// redrivesOf returns the unfinished bulk operations that redrive the dead letters with a cause.
func (c *controller) redrivesOf(ctx context.Context, p jobs.Principal, fingerprint string) (found []*joblist.BulkOperation, err error) {
	const most = 100 // an account may have 20 open ones
	page, err := c.Bulk.List(ctx, p, true, paging.Request{First: most})
	if err != nil {
		return nil, err
	}
	for _, op := range page.Items {
		var filter models.DeadLetterFilter
		if op.Action == joblist.BulkRedrive && json.Unmarshal(op.Filter, &filter) == nil && filter.Fingerprint == fingerprint {
			found = append(found, op)
		}
	}
	return found, nil
}

// sample returns the log of the newest dead letter that has one.
func (v *deadLetterGroup) sample() models.ArtifactID {
	for _, row := range v.DeadLetters {
		if row.LogID != "" {
			return row.LogID
		}
	}
	return ""
}

// live returns the address of the page's stream. Only the newest letters have one.
func (v *deadLetterGroup) live() string {
	if v.After != "" {
		return ""
	}
	return address.Cause("/live", v.Fingerprint, v.Resolved)
}

// advice says what usually helps against a class of failures.
func advice(class models.FailureClass) string {
	switch class {
	case models.FailOutOfMemory:
		return "The model needs more memory than its GPUs have: redrive with a smaller resolution or a shorter duration, or let the model run on larger GPUs."
	case models.FailUnauthorized:
		return "The provider refused its credentials. Correct them, then redrive one job as a canary."
	case models.FailPoison:
		return "Its attempts took their workers down. Look at the log before a redrive: the next run can take workers down, too."
	case models.FailModelCrash:
		return "The model's runtime crashed. If all are on one host, quarantine the host and redrive."
	case models.FailDefectiveResult:
		return "The videos were broken. If all are on one host, quarantine the host and redrive."
	case models.FailInvalidInput, models.FailContentPolicy, models.FailBudget:
		return "The owner of the jobs caused this and must act. A redrive without changes fails again."
	case models.FailEndpoint:
		return "The server that the jobs name did not answer as expected. Their owner must act; a redrive helps once the server answers again."
	case models.FailRejected:
		return "Somebody rejected the candidates, or nobody answered in time. A redrive asks again."
	case models.FailSubmitUnknown:
		return "A hosted provider did not answer the submit, and may have begun. Look at the provider's own list of jobs; a redrive submits again, and may pay twice."
	case models.FailDependency:
		return "These are cascades: redrive the jobs that they depend on."
	}
	return ""
}
