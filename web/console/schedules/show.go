package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/workflows"
	"github.com/reelay/reelay/web/ui"
)

const (
	// upcomingShown is the number of a schedule's next times on its page, slotsShown that of
	// its newest slots.
	upcomingShown = 10
	slotsShown    = 50
)

// scheduleShow is the view of one schedule's page.
type scheduleShow struct {
	scheduleRow
	// Prompt is that of its job, and Nodes are those of its workflow.
	Prompt   string
	Nodes    []scheduledNode
	Upcoming []time.Time
	Slots    []*schedules.Slot
	// Keys are the names of the key as which it submits, and of who paused it.
	Keys shell.KeyNames
	Now  time.Time
}

// scheduledNode is a node of the workflow that a schedule submits.
type scheduledNode struct {
	Key, Model, Prompt string
	// After are the nodes that it names. It waits for those whose results it uses, too.
	After []string
}

func (v *scheduleShow) show(request schedule.Request) {
	if request.Job != nil {
		v.Prompt = request.Job.Prompt
		return
	}
	for _, n := range request.Workflow.Jobs[:min(len(request.Workflow.Jobs), workflows.NodesShown)] {
		v.Nodes = append(v.Nodes, scheduledNode{n.Key, n.Job.Model, n.Job.Prompt, n.After})
	}
}

// schedulePause is the view of the page that asks why a schedule is paused.
type schedulePause struct {
	scheduleRow
	Reason string
	// Errors are messages by the name of the field.
	Errors map[string]string
}

// runsPath is the address of the list of what the schedule submitted.
func (r scheduleRow) runsPath() string {
	if r.Workflow != "" {
		return address.Workflows{Schedule: r.ID}.Path()
	}
	return address.Jobs{Search: address.SearchTerm("schedule", string(r.ID))}.Path("/jobs")
}

// every is the expression or the interval as it was entered.
func (r scheduleRow) every() string {
	if r.Cron != "" {
		return r.Cron
	}
	return fmt.Sprintf("every %d s", r.EverySeconds)
}

// late says what happens to slots that passed while no process could fire them.
func (r scheduleRow) late() string {
	window := ui.Duration(time.Duration(r.CatchUpWindowSeconds) * time.Second)
	switch r.CatchUp {
	case schedules.CatchUpCoalesce:
		return "the last one fires, up to " + window + " late"
	case schedules.CatchUpAll:
		return "each one fires, up to " + window + " late"
	}
	return "none of them fires"
}

// overlaps says what happens while the run of an earlier slot has not ended.
func (r scheduleRow) overlaps() string {
	switch r.Overlap {
	case schedules.RunOverlapSkip:
		return "the slot is skipped"
	case schedules.RunOverlapCancel:
		return "the earlier one is cancelled"
	}
	return "both run"
}

// skippedTimes and repeatedTimes say what happens when daylight saving begins and ends.
func (r scheduleRow) skippedTimes() string {
	if r.DSTGap == schedules.DSTGapSkip {
		return "do not fire"
	}
	return "fire once, when the clock is put forward"
}

func (r scheduleRow) repeatedTimes() string {
	switch r.DSTOverlap {
	case schedules.DSTOverlapLast:
		return "fire the second time"
	case schedules.DSTOverlapBoth:
		return "fire both times"
	}
	return "fire the first time"
}

// since is the newest slot that the page knows. A form with it fires the schedule once.
func (v *scheduleShow) since() string {
	newest := v.CreatedAt
	if len(v.Slots) > 0 && v.Slots[0].At.After(newest) {
		newest = v.Slots[0].At
	}
	return newest.UTC().Format(time.RFC3339Nano)
}

func scheduleID(r *http.Request) models.ScheduleID { return models.ScheduleID(r.PathValue("id")) }

func (c *controller) scheduleRow(ctx context.Context, p jobs.Principal, id models.ScheduleID) (scheduleRow, error) {
	s, err := c.Schedules.Get(ctx, p, id)
	if err != nil {
		return scheduleRow{}, err
	}
	names, err := c.AccountNames(ctx, []models.AccountID{s.AccountID})
	return scheduleRow{s, names[s.AccountID]}, err
}

func (c *controller) scheduleShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readSchedule(r.Context(), p, scheduleID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, scheduleShowPage(v))
}

func (c *controller) readSchedule(ctx context.Context, p jobs.Principal, id models.ScheduleID) (v *scheduleShow, err error) {
	v = &scheduleShow{Now: time.Now()}
	if v.scheduleRow, err = c.scheduleRow(ctx, p, id); err != nil {
		return nil, err
	}
	if v.Slots, err = c.Schedules.Recent(ctx, v.Schedule, slotsShown); err != nil {
		return nil, err
	}
	// A schedule that cannot be read is paused, and its page says why.
	if upcoming, err := c.Schedules.Upcoming(ctx, v.Schedule, upcomingShown); err == nil {
		v.Upcoming = upcoming
	}
	switch request, err := c.Schedules.RequestOf(ctx, v.Schedule); {
	case err == nil:
		v.show(request)
	case postgres.IsOutage(err):
		return nil, err
	}
	if v.Keys, err = c.KeyNames(ctx, p, v.PausedBy, string(v.CreatedBy)); err != nil {
		return nil, err
	}
	return v, nil
}

func (c *controller) schedulePauseAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.schedulePausePage(w, r, p, http.StatusOK, &schedulePause{})
}

func (c *controller) schedulePausePage(w http.ResponseWriter, r *http.Request, p jobs.Principal, status int, v *schedulePause) (err error) {
	if v.scheduleRow, err = c.scheduleRow(r.Context(), p, scheduleID(r)); err != nil {
		return err
	}
	return shell.Render(w, r, status, schedulePauseForm(v))
}

func (c *controller) schedulePause(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	_, err := c.Schedules.Pause(r.Context(), p, scheduleID(r), reason)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Field == "reason" {
		return c.schedulePausePage(w, r, p, http.StatusUnprocessableEntity,
			&schedulePause{Reason: reason, Errors: map[string]string{"reason": refused.Message}})
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, address.Schedule(scheduleID(r)), "The schedule is paused.")
}

func (c *controller) scheduleResume(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if _, err := c.Schedules.Resume(r.Context(), p, scheduleID(r)); err != nil {
		return err
	}
	return c.Done(w, r, address.Schedule(scheduleID(r)), "The schedule fires again.")
}

// scheduleTrigger fires a schedule, once for each page with the button.
func (c *controller) scheduleTrigger(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	since, err := time.Parse(time.RFC3339Nano, r.PostForm.Get("since"))
	if err != nil {
		return apierror.Invalid("since", "The form is not complete: open the schedule's page again.")
	}
	slot, err := c.Schedules.FireNow(r.Context(), p, scheduleID(r), since)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeConflict {
		return c.Done(w, r, address.Schedule(scheduleID(r)), refused.Message)
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, address.Schedule(scheduleID(r)), "The schedule fired: "+cmp.Or(string(slot.JobID), string(slot.WorkflowID))+".")
}

func (c *controller) scheduleDeleteAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.scheduleRow(r.Context(), p, scheduleID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, scheduleDeletePage(v))
}

func (c *controller) scheduleDelete(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	err := c.Schedules.Delete(r.Context(), p, scheduleID(r))
	if err != nil && !apierror.HasCode(err, apierror.CodeNotFound) { // a second click finds it deleted
		return err
	}
	return c.Done(w, r, "/schedules", "The schedule was deleted.")
}
