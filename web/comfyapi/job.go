package comfyapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/door"
)

func (a *api) show(_ http.ResponseWriter, c *call, id string) (*answer, error) {
	job, err := a.job(c.Context(), c, id)
	if err != nil {
		return nil, err
	}
	view, err := a.view(c.Context(), c, job)
	return ok(view), err
}

// cancel asks for the cancellation of a job. One that has ended stays as it is.
func (a *api) cancel(w http.ResponseWriter, c *call, id string) (*answer, error) {
	job, err := a.job(c.Context(), c, id)
	if err != nil {
		return nil, err
	}
	if _, err := a.Canceller.Cancel(c.Context(), c.caller, job.ID); err != nil && !apierror.HasCode(err, apierror.CodeConflict) {
		return nil, err
	}
	return a.show(w, c, id)
}

// workflow returns the graph of a job, which can be submitted again.
func (a *api) workflow(_ http.ResponseWriter, c *call, id string) (*answer, error) {
	job, err := a.job(c.Context(), c, id)
	if err != nil {
		return nil, err
	}
	return ok(map[string]any{"workflow": broughtBy(job).withAssets(), "format": "api"}), nil
}

const (
	defaultLimit = 50
	maxLimit     = 100
)

// summary is a job in a list.
type summary struct {
	ID         string            `json:"id"`
	Status     string            `json:"status"`
	CreateTime time.Time         `json:"create_time"`
	UpdateTime time.Time         `json:"update_time"`
	Metadata   map[string]string `json:"metadata"`
}

type listing struct {
	Jobs       []summary `json:"jobs"`
	NextCursor string    `json:"next_cursor,omitzero"`
}

// list returns jobs of the model, newest first. A page may be shorter than the limit, or empty, although there are more.
func (a *api) list(_ http.ResponseWriter, c *call) (*answer, error) {
	of, with, err := readPage(c)
	if err != nil {
		return nil, err
	}
	model, err := a.model(c)
	if err != nil {
		return nil, err
	}
	ctx, read, err := a.Reads.Shares.Admit(c.Context(), c.caller, query.PagePrice(of.First))
	if err != nil {
		return nil, err
	}
	defer read.End()
	found, err := a.Reads.Jobs.List(ctx, c.caller, joblist.JobFilter{AccountID: c.caller.AccountID, Model: model.Name}, of)
	if err != nil {
		return nil, err
	}
	shown := listing{Jobs: []summary{}}
	for _, job := range found.Items {
		if has := labels(job); matches(has, with) && job.DeletedAt.IsZero() {
			shown.Jobs = append(shown.Jobs, summary{string(job.ID), statusOf(job), job.CreatedAt.UTC(), changedAt(job).UTC(), has})
		}
	}
	if found.More {
		shown.NextCursor = found.End
	}
	return ok(shown), nil
}

func readPage(c *call) (of paging.Request, with map[string]string, err error) {
	of.First, with = defaultLimit, map[string]string{}
	for name, values := range c.URL.Query() {
		value := values[0]
		key, isLabel := strings.CutPrefix(name, "metadata[")
		key, closed := strings.CutSuffix(key, "]")
		switch {
		case len(values) > 1:
			return of, nil, door.Duplicate("The URL", "parameter", name)
		case isLabel && closed:
			with[key] = value
		case name == "cursor":
			of.After = value
		case name == "limit":
			if of.First, err = strconv.Atoi(value); err != nil || of.First < 1 || of.First > maxLimit {
				return of, nil, faultf(http.StatusBadRequest, "invalid_request", "limit must be from 1 to %d.", maxLimit)
			}
		default:
			return of, nil, faultf(http.StatusBadRequest, "invalid_request",
				"There is no parameter %s: a list has limit, cursor and metadata[NAME].", door.Clip(name))
		}
	}
	return of, with, nil
}

func matches(has, with map[string]string) bool {
	for key, value := range with {
		if has[key] != value {
			return false
		}
	}
	return true
}

func changedAt(job *models.Job) time.Time {
	last := job.CreatedAt
	for _, at := range []time.Time{job.StartedAt, job.Progress.UpdatedAt, job.CancelRequestedAt, job.CompletedAt} {
		if at.After(last) {
			last = at
		}
	}
	return last
}
