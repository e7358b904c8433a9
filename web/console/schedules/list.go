package schedules

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// schedulesShown is the number of schedules on a page.
const schedulesShown = 50

// scheduleList is the view of the page with all schedules.
type scheduleList struct {
	Rows []scheduleRow
	// Accounts have schedules on this page, in their order there.
	Accounts []models.AccountID
	Names    map[models.AccountID]string
	Slots    map[models.AccountID]*schedule.Usage
	// After is where this page begins, or "" for the first one.
	After string
	// Next is the address of the next page, or "".
	Next string
	Now  time.Time
}

// live returns the address of the list's stream. Only the first page has one.
func (v *scheduleList) live() string {
	if v.After != "" {
		return ""
	}
	return "/schedules/live"
}

// scheduleRow is one schedule.
type scheduleRow struct {
	*schedules.Schedule
	Account string
}

// state names the schedule's state, as a badge.
func (r scheduleRow) state() string {
	switch {
	case r.Paused():
		return "PAUSED"
	case r.NextFireAt.IsZero():
		return "ENDED"
	}
	return "ACTIVE"
}

// when says in words when it fires.
func (r scheduleRow) when() string {
	return schedule.Describe(r.Schedule)
}

// submits names what it submits.
func (r scheduleRow) submits() string {
	if r.Workflow == "" {
		return r.Model
	}
	return ui.Upright(r.Workflow) + ", " + text.Count(r.WorkflowJobs, "job")
}

// ofLimit is a figure with its limit, if there is one.
func ofLimit(figure string, limit *int) string {
	if limit == nil {
		return figure
	}
	return figure + " of " + ui.Count(*limit, 0)
}

// perMinute is how many slots a minute an account has. Few are shown with a fraction.
func perMinute(u *schedule.Usage) string {
	if n := u.PerMinute(); n < 100 {
		return strconv.FormatFloat(math.Ceil(10*n)/10, 'f', -1, 64)
	}
	return ui.Count(int(math.Ceil(u.PerMinute())), 0)
}

func (c *controller) scheduleList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readSchedules(r.Context(), p, r.URL.Query().Get("after"))
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, scheduleListPage(v))
}

func (c *controller) scheduleListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.Refresh(w, r, p, "/schedules/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		v, err := c.readSchedules(ctx, p, "")
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return scheduleTable(v)
		}, nil
	})
}

func (c *controller) readSchedules(ctx context.Context, p jobs.Principal, after string) (*scheduleList, error) {
	found, err := c.Schedules.List(ctx, p, "", paging.Request{First: schedulesShown, After: after})
	if err != nil {
		return nil, err
	}
	ids := make([]models.AccountID, len(found.Items))
	for i, s := range found.Items {
		ids[i] = s.AccountID
	}
	names, err := c.AccountNames(ctx, ids)
	if err != nil {
		return nil, err
	}
	ids = lo.Uniq(ids)
	slots, err := c.Schedules.Usages(ctx, ids)
	if err != nil {
		return nil, err
	}
	v := &scheduleList{Accounts: ids, Names: names, Slots: slots, After: after}
	for _, s := range found.Items {
		v.Rows = append(v.Rows, scheduleRow{s, names[s.AccountID]})
	}
	if found.More {
		v.Next = "/schedules?" + url.Values{"after": {found.End}}.Encode()
	}
	return v, nil
}
