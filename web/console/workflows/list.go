package workflows

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// workflowsShown is the number of workflows on a page.
const workflowsShown = 50

// workflowList is the view of the page with all workflows, or with those of a schedule.
type workflowList struct {
	address.Workflows
	Rows []workflowRow
	// Next is the address of the next page, or "".
	Next string
	Now  time.Time
}

// live returns the address of the list's stream. Only the first page of all has one.
func (v *workflowList) live() string {
	if v.Workflows != (address.Workflows{}) {
		return ""
	}
	return "/workflows/live"
}

// first is the address of the first page.
func (v *workflowList) first() string { return address.Workflows{Schedule: v.Schedule}.Path() }

// workflowRow is one workflow.
type workflowRow struct {
	*models.Workflow
	query.WorkflowCounts
	Account string
}

// done says how many nodes are done.
func (r workflowRow) done() string {
	return fmt.Sprintf("%d of %d", r.Completed+r.Skipped, r.Total)
}

// end is when it ended, or now.
func (r workflowRow) end(now time.Time) time.Time {
	if r.CompletedAt.IsZero() {
		return now
	}
	return r.CompletedAt
}

func (c *controller) workflowList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := r.URL.Query()
	v, err := c.readWorkflows(r.Context(), p, address.Workflows{Schedule: models.ScheduleID(asked.Get("schedule")), After: asked.Get("after")})
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, workflowListPage(v))
}

func (c *controller) workflowListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.Refresh(w, r, p, "/workflows/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		v, err := c.readWorkflows(ctx, p, address.Workflows{})
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return workflowTable(v)
		}, nil
	})
}

func (c *controller) readWorkflows(ctx context.Context, p jobs.Principal, q address.Workflows) (*workflowList, error) {
	if q.Schedule != "" && !q.Schedule.Valid() {
		return nil, apierror.NotFound("schedule")
	}
	found, err := c.Workflows.List(ctx, p, models.WorkflowFilter{ScheduleID: q.Schedule},
		paging.Request{First: workflowsShown, After: q.After})
	if err != nil {
		return nil, err
	}
	v := &workflowList{Workflows: q}
	if v.Rows, err = c.workflowRows(ctx, p, found.Items); err != nil {
		return nil, err
	}
	if found.More {
		v.Next = address.Workflows{Schedule: q.Schedule, After: found.End}.Path()
	}
	return v, nil
}

func (c *controller) workflowRows(ctx context.Context, p jobs.Principal, found []*models.Workflow) (rows []workflowRow, err error) {
	if len(found) == 0 {
		return nil, nil
	}
	edges, err := c.Reads.Workflows.Of(p, found...)
	if err != nil {
		return nil, err
	}
	counts, err := edges.Counts(ctx)
	if err != nil {
		return nil, err
	}
	names, err := c.AccountNames(ctx, lo.Map(found, func(w *models.Workflow, _ int) models.AccountID { return w.AccountID }))
	for _, w := range found {
		rows = append(rows, workflowRow{w, counts[w.ID], names[w.AccountID]})
	}
	return rows, err
}
