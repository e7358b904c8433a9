package schedules

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

const (
	// previewShown is how many of its next times the form of a schedule shows.
	previewShown = 5
	// localTime is how the form shows a time in the schedule's zone.
	localTime = "2006-01-02T15:04:05"
)

// scheduleForm is the view of the form for a schedule. Fields have their names in the API.
type scheduleForm struct {
	// Schedule is the one that is edited, or nil for a new one.
	Schedule *schedules.Schedule
	Values   url.Values
	Models   []string
	// Errors are messages by the name of the field; "" is the whole form.
	Errors map[string]string
	// Words and Upcoming say when the schedule would fire, once that was asked for.
	Words    string
	Upcoming []time.Time

	request schedule.Request // with the fields that the form does not show
}

// scheduleChoice is a field with a choice.
type scheduleChoice struct {
	Name, Label, Hint string
	// Options are values and what they mean, the default first.
	Options [][2]string
}

var (
	scheduleLate = scheduleChoice{"catchUp", "Late slots", "What happens to slots that no process could fire.", [][2]string{
		{string(schedules.CatchUpCoalesce), "The last one fires"}, {string(schedules.CatchUpAll), "Each one fires"},
		{string(schedules.CatchUpSkip), "None of them fires"},
	}}
	scheduleOverlap = scheduleChoice{"overlap", "While an earlier run lasts", "", [][2]string{
		{string(schedules.RunOverlapAllow), "Both run"}, {string(schedules.RunOverlapSkip), "The slot is skipped"},
		{string(schedules.RunOverlapCancel), "The earlier one is cancelled"},
	}}
	scheduleGap = scheduleChoice{"dstGap", "Times that daylight saving skips", "", [][2]string{
		{string(schedules.DSTGapShift), "Fire at the change"}, {string(schedules.DSTGapSkip), "Do not fire"},
	}}
	scheduleRepeat = scheduleChoice{"dstOverlap", "Times that it repeats", "", [][2]string{
		{string(schedules.DSTOverlapFirst), "Fire the first time"}, {string(schedules.DSTOverlapLast), "Fire the second time"},
		{string(schedules.DSTOverlapBoth), "Fire both times"},
	}}
)

// path is where the form is sent, and back the page that it came from.
func (f *scheduleForm) path() string {
	if f.Schedule == nil {
		return "/schedules/new"
	}
	return address.Schedule(f.Schedule.ID) + "/edit"
}

func (f *scheduleForm) back() string {
	if f.Schedule == nil {
		return "/schedules"
	}
	return address.Schedule(f.Schedule.ID)
}

func (f *scheduleForm) title() string {
	if f.Schedule == nil {
		return "New schedule"
	}
	return "Edit a schedule"
}

// newScheduleForm offers the models that an account may use: its jobs are submitted for that account,
// even if an operator sends the form.
func (c *controller) newScheduleForm(account models.AccountID, values url.Values) *scheduleForm {
	known := lo.Map(c.Reads.Models.Catalogue.Current().For(account).Models(), func(m *catalogue.Model, _ int) string { return m.Name })
	if model := values.Get("model"); model != "" { // it may have been removed
		known = lo.Uniq(append(known, model))
	}
	return &scheduleForm{Values: values, Models: known, Errors: map[string]string{}}
}

func (c *controller) scheduleNew(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, scheduleFormPage(c.newScheduleForm(p.AccountID, url.Values{"timezone": {"UTC"}})))
}

func (c *controller) scheduleEdit(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	f, err := c.editedSchedule(r, p, nil)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, scheduleFormPage(f))
}

// editedSchedule returns the form of a stored schedule, with these values or, if they are nil, its own.
func (c *controller) editedSchedule(r *http.Request, p jobs.Principal, values url.Values) (*scheduleForm, error) {
	s, err := c.Schedules.Get(r.Context(), p, scheduleID(r))
	if err != nil {
		return nil, err
	}
	request, err := c.Schedules.RequestOf(r.Context(), s)
	if err != nil {
		return nil, err
	}
	if values == nil {
		values = scheduleValues(s, request)
	}
	f := c.newScheduleForm(s.AccountID, values)
	f.Schedule, f.request = s, request
	return f, nil
}

// scheduleValues are the values of the form for a stored schedule.
func scheduleValues(s *schedules.Schedule, request schedule.Request) url.Values {
	values := url.Values{
		"name": {s.Name}, "cron": {s.Cron}, "timezone": {s.Timezone}, "catchUp": {string(s.CatchUp)},
		"catchUpWindowSeconds": {strconv.Itoa(s.CatchUpWindowSeconds)},
		"overlap":              {string(s.Overlap)}, "dstGap": {string(s.DSTGap)}, "dstOverlap": {string(s.DSTOverlap)},
		"jitterSeconds": {strconv.Itoa(s.JitterSeconds)},
	}
	if job := request.Job; job != nil {
		values.Set("model", job.Model)
		values.Set("prompt", job.Prompt)
		values.Set("params", string(job.Params))
		values.Set("tier", string(job.Tier))
	}
	if s.EverySeconds > 0 {
		values.Set("everySeconds", strconv.Itoa(s.EverySeconds))
	}
	zone, err := time.LoadLocation(s.Timezone)
	if err != nil {
		zone = time.UTC
	}
	for name, at := range map[string]time.Time{"startAt": s.StartAt, "endAt": s.EndAt} {
		if !at.IsZero() {
			values.Set(name, at.In(zone).Format(localTime))
		}
	}
	return values
}

// input reads the form. What it cannot read is in Errors.
func (f *scheduleForm) input() schedule.Input {
	text := func(name string) string { return strings.TrimSpace(f.Values.Get(name)) }
	in := schedule.Input{
		Name: text("name"), Cron: text("cron"), EverySeconds: lo.FromPtr(f.number("everySeconds")), Timezone: text("timezone"),
		DSTGap: schedules.DSTGap(text("dstGap")), DSTOverlap: schedules.DSTOverlap(text("dstOverlap")),
		JitterSeconds: lo.FromPtr(f.number("jitterSeconds")),
		CatchUp:       schedules.CatchUp(text("catchUp")), CatchUpWindowSeconds: f.number("catchUpWindowSeconds"),
		Overlap: schedules.RunOverlap(text("overlap")),
		StartAt: f.moment("startAt"), EndAt: f.moment("endAt"), Request: f.request,
	}
	if in.Workflow == nil {
		job := lo.FromPtr(f.request.Job)
		job.Model, job.Prompt, job.Tier, job.Params = text("model"), f.Values.Get("prompt"), models.Tier(text("tier")), nil
		if params := text("params"); params != "" {
			if job.Params = json.RawMessage(params); !json.Valid(job.Params) {
				f.Errors["params"] = "This is not JSON. Write an object, such as {\"durationSeconds\": 4}."
			}
		}
		in.Job = &job
	}
	for _, choice := range []scheduleChoice{scheduleLate, scheduleOverlap, scheduleGap, scheduleRepeat} {
		if value := text(choice.Name); value != "" && !lo.ContainsBy(choice.Options, func(o [2]string) bool { return o[0] == value }) {
			f.Errors[choice.Name] = "Choose one of the list."
		}
	}
	return in
}

// number reads a whole number, or nil for an empty field.
func (f *scheduleForm) number(name string) *int {
	entered := strings.TrimSpace(f.Values.Get(name))
	if entered == "" {
		return nil
	}
	n, err := strconv.ParseInt(entered, 10, 32)
	if err != nil {
		f.Errors[name] = "This must be a whole number of seconds."
	}
	return new(int(n))
}

// moment reads a time in the schedule's zone, or nil for an empty field.
func (f *scheduleForm) moment(name string) *time.Time {
	entered := strings.TrimSpace(f.Values.Get(name))
	if entered == "" {
		return nil
	}
	zone, err := time.LoadLocation(strings.TrimSpace(f.Values.Get("timezone")))
	if err != nil {
		zone = time.UTC // the zone is refused
	}
	for _, layout := range []string{localTime, "2006-01-02T15:04"} { // a browser leaves out seconds that are 0
		if at, err := time.ParseInLocation(layout, entered, zone); err == nil {
			return &at
		}
	}
	f.Errors[name] = "This must be a date and a time, such as 2026-01-31T09:00."
	return nil
}

// scheduleSend creates or updates a schedule, or shows when it would fire.
func (c *controller) scheduleSend(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	f, err := c.sentSchedule(r, p)
	if err != nil {
		return err
	}
	in := f.input()
	if r.PostForm.Get("preview") != "" {
		c.previewSchedule(r, f, in)
		return shell.Render(w, r, http.StatusOK, scheduleFormPage(f))
	}
	if len(f.Errors) > 0 {
		return shell.Render(w, r, http.StatusUnprocessableEntity, scheduleFormPage(f))
	}
	var saved *schedules.Schedule
	if f.Schedule == nil {
		saved, err = c.Schedules.Create(r.Context(), p, in)
	} else {
		saved, err = c.Schedules.Update(r.Context(), p, f.Schedule.ID, in)
	}
	if f.refuse(err) {
		return shell.Render(w, r, http.StatusUnprocessableEntity, scheduleFormPage(f))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, address.Schedule(saved.ID), "The schedule is saved.")
}

// schedulePreview is the part of the form that says when the schedule would fire.
func (c *controller) schedulePreview(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	f := c.newScheduleForm(p.AccountID, r.PostForm)
	c.previewSchedule(r, f, f.input())
	return shell.Render(w, r, http.StatusOK, scheduleTimes(f))
}

func (c *controller) sentSchedule(r *http.Request, p jobs.Principal) (*scheduleForm, error) {
	if err := shell.ReadForm(r); err != nil {
		return nil, err
	}
	if r.PathValue("id") == "" {
		return c.newScheduleForm(p.AccountID, r.PostForm), nil
	}
	return c.editedSchedule(r, p, r.PostForm)
}

func (c *controller) previewSchedule(r *http.Request, f *scheduleForm, in schedule.Input) {
	if len(f.Errors) > 0 {
		return
	}
	var err error
	f.Words, f.Upcoming, err = c.Schedules.Preview(r.Context(), in, previewShown)
	f.refuse(err)
}

// refuse shows an error at its field, if the caller caused it.
func (f *scheduleForm) refuse(err error) bool {
	var refused *apierror.Error
	if !errors.As(err, &refused) || !slices.Contains(refusals, refused.Code) {
		return false
	}
	field := strings.TrimPrefix(refused.Field, "job.")
	if name, _, inside := strings.Cut(field, "."); inside && name == "params" {
		field = name
	}
	if !lo.Contains(scheduleFields, field) {
		field = ""
	}
	f.Errors[field] = refused.Message
	return true
}

// refusals are the codes of errors that the form shows. A tier that the account may not use is FORBIDDEN.
var refusals = []apierror.Code{apierror.CodeInvalidInput, apierror.CodeConflict, apierror.CodeQuotaExceeded, apierror.CodeForbidden}

// scheduleFields are the fields of the form that show their errors.
var scheduleFields = []string{
	"name", "cron", "everySeconds", "timezone", "catchUp", "catchUpWindowSeconds", "overlap", "dstGap", "dstOverlap", "jitterSeconds",
	"startAt", "endAt", "model", "prompt", "params", "tier",
}
