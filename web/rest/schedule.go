package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/samber/lo"
)

const (
	schedulesPath = "/api/v1/schedules"
	// recurringPath is an alias of schedulesPath, for which programs were written.
	recurringPath = jobsPath + "/recurring"
	// createSchedule and createRecurring are patterns of the mux.
	createSchedule  = http.MethodPost + " " + schedulesPath
	createRecurring = http.MethodPost + " " + recurringPath
)

// scheduleRequest makes a schedule that submits a job or a workflow again and again.
type scheduleRequest struct {
	Name           *string    `json:"name,omitempty" doc:"Name, unique in the account. Default: the model or the workflow, and its times, such as testcard every weekday at 09:00."`
	JobType        *string    `json:"job_type,omitempty" doc:"The type of the job. The default is the model's type." example:"video.generate"`
	Model          *string    `json:"model,omitempty" doc:"A model's name. The default is the first model of the catalogue with this type."`
	CronExpression *string    `json:"cron_expression,omitempty" doc:"Cron expression of five fields, of six (seconds first), or a macro such as @daily. Give either this or every_seconds." example:"0 9 * * MON-FRI"`
	EverySeconds   *int       `json:"every_seconds,omitempty" minimum:"1" doc:"Interval in seconds, 1 to 31,622,400. Give either this or cron_expression."`
	Timezone       *string    `json:"timezone,omitempty" doc:"Time zone, a name of the IANA database. Default: UTC." example:"Europe/Berlin"`
	Payload        object     `json:"payload,omitempty" doc:"The prompt and the model's parameters. Give either this or workflow."`
	Priority       *string    `json:"priority,omitempty" enum:"critical,high,normal,low"`
	CatchUp        *string    `json:"catch_up,omitempty" enum:"skip,coalesce,all" doc:"What happens to missed slots. Default: coalesce (only the last one fires)."`
	Overlap        *string    `json:"overlap,omitempty" enum:"allow,skip,cancel_previous" doc:"What happens to a slot while an earlier one's job or workflow still runs. Default: allow."`
	StartAt        *time.Time `json:"start_at,omitempty"`
	EndAt          *time.Time `json:"end_at,omitempty"`
	CallbackURL    *string    `json:"callback_url,omitempty" doc:"An https URL that receives a webhook when a run of one of the jobs ends."`
	Own

	IdempotencyKey *string `json:"idempotency_key,omitempty" doc:"1 to 255 printable characters. The header Idempotency-Key has the same meaning. The same key with the same request returns the same schedule, until it is deleted."`

	Workflow *workflowRequest `json:"workflow,omitempty" doc:"Workflow to submit instead of a job: the body of POST /api/v1/workflows without reuse and idempotency_key. Excludes payload, job_type, model, priority, callback_url, user_id and metadata."`
}

// scheduleView is a schedule.
type scheduleView struct {
	ScheduleID models.ScheduleID `json:"schedule_id"`
	scheduleFacts
}

// recurringView is a schedule at the alias.
type recurringView struct {
	RecurringID models.ScheduleID `json:"recurring_id"`
	scheduleFacts
}

// scheduleFacts is what is shown of a schedule besides its id.
type scheduleFacts struct {
	Name           string     `json:"name"`
	CronExpression string     `json:"cron_expression,omitempty"`
	EverySeconds   int        `json:"every_seconds,omitempty"`
	Timezone       string     `json:"timezone"`
	Description    string     `json:"description" doc:"The times in words."`
	Model          string     `json:"model,omitempty" doc:"The job's model, unless it submits a workflow."`
	Workflow       string     `json:"workflow,omitempty" doc:"The workflow's name, if it submits one."`
	Paused         bool       `json:"paused"`
	NextExecuteAt  *time.Time `json:"next_execute_at" doc:"Next slot. Null while the schedule is paused, and after its last slot."`
	LastExecuteAt  *time.Time `json:"last_execute_at"`
}

type scheduleInput struct {
	IdempotencyHeader
	Body scheduleRequest
}

// scheduleOutput is the response with a schedule.
type scheduleOutput[V any] struct {
	Location string `header:"Location"`
	Body     V
}

type scheduleID struct {
	ID models.ScheduleID `path:"id" doc:"Id of the schedule: sch_…"`
}

// pageOfSchedules is what a page of schedules says beside them.
type pageOfSchedules struct {
	NextCursor string     `json:"next_cursor,omitempty" doc:"Cursor of the next page. Absent on the last page."`
	Slots      *slotUsage `json:"slots,omitempty" doc:"What all schedules of the caller's account use of its limits. Left out for operators, who see the schedules of all accounts."`
}

type scheduleList struct {
	Body struct {
		Schedules []scheduleView `json:"schedules" nullable:"false"`
		pageOfSchedules
	}
}

type recurringList struct {
	Body struct {
		Recurring []recurringView `json:"recurring"`
		pageOfSchedules
	}
}

// slotUsage is how many slots an account has, and may have.
type slotUsage struct {
	PerMinute    float64 `json:"per_minute" doc:"Slots a minute of the active schedules, each counted with its busiest hour."`
	MaxPerMinute *int    `json:"max_per_minute" doc:"Null is no limit."`
	Waiting      int     `json:"waiting" doc:"Slots that wait to be submitted."`
	MaxWaiting   *int    `json:"max_waiting" doc:"Null is no limit."`
}

type schedulePage struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Maximum number of schedules on a page."`
	Cursor string `query:"cursor" doc:"Cursor: the next_cursor of the previous page."`
}

func (s *service) registerSchedules(api huma.API) {
	create := huma.Operation{
		OperationID: "createSchedule", Method: http.MethodPost, Path: schedulesPath, DefaultStatus: http.StatusCreated,
		Summary: "Create a schedule",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusTooManyRequests},
		RequestBody: example("A video every weekday", map[string]any{
			"job_type": "video.generate", "model": "testcard", "cron_expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin",
			"priority": "normal",
			"payload":  map[string]any{"prompt": "The weather of today", "durationSeconds": 4},
		}),
	}
	list := huma.Operation{OperationID: "listSchedules", Method: http.MethodGet, Path: schedulesPath, Summary: "List schedules"}
	get := huma.Operation{
		OperationID: "getSchedule", Method: http.MethodGet, Path: schedulesPath + "/{id}", Summary: "Read a schedule",
		Errors: []int{http.StatusNotFound},
	}
	drop := huma.Operation{
		OperationID: "deleteSchedule", Method: http.MethodDelete, Path: schedulesPath + "/{id}", DefaultStatus: http.StatusNoContent,
		Summary:     "Delete a schedule",
		Description: "Jobs and workflows that it has submitted stay.",
		Errors:      []int{http.StatusNotFound},
	}
	serve(api, create, s.createSchedule)
	serve(api, list, s.listSchedules)
	serve(api, get, s.getSchedule)
	serve(api, drop, s.deleteSchedule)

	serve(api, aliased(create), func(ctx context.Context, in *scheduleInput) (*scheduleOutput[recurringView], error) {
		return asRecurring(s.createSchedule(ctx, in))
	})
	serve(api, aliased(list), func(ctx context.Context, in *schedulePage) (*recurringList, error) {
		found, err := s.listSchedules(ctx, in)
		if err != nil {
			return nil, err
		}
		out := &recurringList{}
		out.Body.Recurring = lo.Map(found.Body.Schedules, func(one scheduleView, _ int) recurringView {
			return recurringView{one.ScheduleID,
				one.scheduleFacts}
		})
		out.Body.pageOfSchedules = found.Body.pageOfSchedules
		return out, nil
	})
	serve(api, aliased(get), func(ctx context.Context, in *scheduleID) (*scheduleOutput[recurringView], error) {
		return asRecurring(s.getSchedule(ctx, in))
	})
	serve(api, aliased(drop), s.deleteSchedule)
}

// aliased returns an operation on schedules at the alias, which the document does not show.
func aliased(op huma.Operation) huma.Operation {
	op.Path, op.Hidden = strings.Replace(op.Path, schedulesPath, recurringPath, 1), true
	op.OperationID = strings.Replace(op.OperationID, "Schedule", "Recurring", 1)
	return op
}

// asRecurring returns a response as the alias gives it.
func asRecurring(out *scheduleOutput[scheduleView], err error) (*scheduleOutput[recurringView], error) {
	if err != nil {
		return nil, err
	}
	return &scheduleOutput[recurringView]{
		Location: strings.Replace(out.Location, schedulesPath, recurringPath, 1),
		Body:     recurringView{out.Body.ScheduleID, out.Body.scheduleFacts},
	}, nil
}

func (s *service) getSchedule(ctx context.Context, in *scheduleID) (*scheduleOutput[scheduleView], error) {
	found, err := s.Schedules.Get(ctx, callerOf(ctx).Principal, in.ID)
	if err != nil {
		return nil, err
	}
	return viewSchedule(ctx, found), nil
}

func (s *service) deleteSchedule(ctx context.Context, in *scheduleID) (*struct{}, error) {
	return nil, s.Schedules.Delete(ctx, callerOf(ctx).Principal, in.ID)
}

// scheduleNames are the request's names of a schedule's fields.
var scheduleNames = map[string]string{
	"cron": "cron_expression", "idempotencyKey": "idempotency_key", "everySeconds": "every_seconds", "startAt": "start_at", "endAt": "end_at",
	"job.prompt": "payload.prompt", "job.params": "payload", "job.type": "job_type", "job.model": "model", "job.tier": "priority",
	"job.callbackUrl": "callback_url",
	"job.userId":      "user_id", "job.metadata": "metadata",
}

// scheduleWords names the fields of an error as requests do.
func scheduleWords(err error) error {
	var e *apierror.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Field, "workflow.") {
		return renamed(err, scheduleNames)
	}
	inner := *e
	return inWorkflow(workflowWords(inner.In(strings.TrimPrefix(e.Field, "workflow."))))
}

// inWorkflow says that a field is one of the workflow.
func inWorkflow(err error) error {
	var e *apierror.Error
	if !errors.As(err, &e) || e.Field == "" {
		return err
	}
	shown := *e
	return shown.In("workflow." + e.Field)
}

// request reads what is to be submitted.
func (s *service) request(p jobs.Principal, asked *scheduleRequest) (r schedule.Request, err error) {
	switch {
	case asked.Workflow == nil && asked.Payload == nil:
		return r, apierror.Invalid("payload", "Give either payload or workflow.")
	case asked.Workflow == nil:
		job, err := s.jobSubmission(p, &submitInput{Body: jobRequest{JobType: asked.JobType, Model: asked.Model, Payload: asked.Payload,
			Priority: asked.Priority, CallbackURL: asked.CallbackURL, Own: asked.Own}})
		return schedule.Request{Job: &job}, jobWords(err)
	}
	for _, of := range []struct {
		field string
		given bool
	}{
		{"payload", asked.Payload != nil}, {"job_type", asked.JobType != nil}, {"model", asked.Model != nil}, {"priority", asked.Priority != nil},
		{"callback_url", asked.CallbackURL != nil},
		{"user_id", asked.UserID != nil}, {"metadata", asked.Metadata != nil},
	} {
		if of.given {
			return r, apierror.Invalid(of.field, "With workflow, leave out %s: set it on the jobs of the workflow.", of.field)
		}
	}
	graph, err := s.workflowGraph(p, asked.Workflow)
	if err != nil {
		return r, inWorkflow(err)
	}
	graph.IdempotencyKey = asked.Workflow.IdempotencyKey // which is refused
	return schedule.Request{Workflow: graph}, nil
}

func (s *service) createSchedule(ctx context.Context, in *scheduleInput) (*scheduleOutput[scheduleView], error) {
	asked, p := in.Body, callerOf(ctx).Principal
	if err := notEmpty(given{"name", asked.Name}, given{"cron_expression", asked.CronExpression},
		given{"timezone", asked.Timezone}); err != nil {
		return nil, err
	}
	key, err := in.with(asked.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	request, err := s.request(p, &asked)
	if err != nil {
		return nil, err
	}
	made, err := s.Schedules.Create(ctx, p, schedule.Input{
		Name: value(asked.Name), DefaultName: asked.Name == nil, IdempotencyKey: key,
		Cron: value(asked.CronExpression), EverySeconds: lo.FromPtr(asked.EverySeconds), Timezone: value(asked.Timezone),
		CatchUp: schedules.CatchUp(strings.ToUpper(value(asked.CatchUp))), Overlap: schedules.RunOverlap(strings.ToUpper(value(asked.Overlap))),
		StartAt: asked.StartAt, EndAt: asked.EndAt, Request: request,
	})
	if err != nil {
		return nil, scheduleWords(err)
	}
	return viewSchedule(ctx, made), nil
}

func (s *service) listSchedules(ctx context.Context, in *schedulePage) (*scheduleList, error) {
	page, err := s.Schedules.List(ctx, callerOf(ctx).Principal, "", paging.Request{First: in.Limit, After: in.Cursor})
	if err != nil {
		return nil, err
	}
	out := &scheduleList{}
	out.Body.Schedules = []scheduleView{}
	for _, one := range page.Items {
		out.Body.Schedules = append(out.Body.Schedules, viewSchedule(ctx, one).Body)
	}
	if page.More {
		out.Body.NextCursor = page.End
	}
	account := callerOf(ctx).Scope()
	if account == "" {
		return out, nil
	}
	usages, err := s.Schedules.Usages(ctx, []models.AccountID{account})
	if u := usages[account]; u != nil {
		out.Body.Slots = &slotUsage{u.PerMinute(), u.MaxPerMinute(), u.Waits, u.MaxWaiting()}
	}
	return out, err
}

// viewSchedule is the response with a schedule.
func viewSchedule(ctx context.Context, one *schedules.Schedule) *scheduleOutput[scheduleView] {
	return &scheduleOutput[scheduleView]{Location: callerOf(ctx).base + schedulesPath + "/" + string(one.ID),
		Body: scheduleView{one.ID, scheduleFacts{
			Name: one.Name, CronExpression: one.Cron, EverySeconds: one.EverySeconds, Timezone: one.Timezone, Description: schedule.Describe(one),
			Model: one.Model, Workflow: one.Workflow, Paused: one.Paused(), NextExecuteAt: wire.KnownTime(one.NextFireAt),
			LastExecuteAt: wire.KnownTime(one.LastFireAt),
		}}}
}
