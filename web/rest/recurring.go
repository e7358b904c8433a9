package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const (
	recurringPath = jobsPath + "/recurring"
	// createRecurring is a pattern of the mux.
	createRecurring = http.MethodPost + " " + recurringPath
)

// recurringRequest makes a schedule that submits a job or a workflow again and again.
type recurringRequest struct {
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

// recurring is a schedule.
type recurring struct {
	RecurringID    models.ScheduleID `json:"recurring_id"`
	Name           string            `json:"name"`
	CronExpression string            `json:"cron_expression,omitempty"`
	EverySeconds   int               `json:"every_seconds,omitempty"`
	Timezone       string            `json:"timezone"`
	Description    string            `json:"description" doc:"The times in words."`
	Model          string            `json:"model,omitempty" doc:"The job's model, unless it submits a workflow."`
	Workflow       string            `json:"workflow,omitempty" doc:"The workflow's name, if it submits one."`
	Paused         bool              `json:"paused"`
	NextExecuteAt  *time.Time        `json:"next_execute_at" doc:"Next slot. Null while the schedule is paused, and after its last slot."`
	LastExecuteAt  *time.Time        `json:"last_execute_at"`
}

type recurringInput struct {
	IdempotencyHeader
	Body recurringRequest
}

type recurringOutput struct {
	Location string `header:"Location"`
	Body     recurring
}

type recurringID struct {
	ID models.ScheduleID `path:"id" doc:"Id of the schedule: sch_…"`
}

type recurringList struct {
	Body struct {
		Recurring  []recurring `json:"recurring" nullable:"false"`
		NextCursor string      `json:"next_cursor,omitempty" doc:"Cursor of the next page. Absent on the last page."`
		Slots      *slotUsage  `json:"slots,omitempty" doc:"What all schedules of the caller's account use of its limits. Left out for operators, who see the schedules of all accounts."`
	}
}

// slotUsage is how many slots an account has, and may have.
type slotUsage struct {
	PerMinute    float64 `json:"per_minute" doc:"Slots a minute of the active schedules, each counted with its busiest hour."`
	MaxPerMinute *int    `json:"max_per_minute" doc:"Null is no limit."`
	Waiting      int     `json:"waiting" doc:"Slots that wait to be submitted."`
	MaxWaiting   *int    `json:"max_waiting" doc:"Null is no limit."`
}

type recurringPage struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Maximum number of schedules on a page."`
	Cursor string `query:"cursor" doc:"Cursor: the next_cursor of the previous page."`
}

func (s *service) registerRecurring(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "createRecurring", Method: http.MethodPost, Path: recurringPath, DefaultStatus: http.StatusCreated, Summary: "Create a schedule",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests},
		RequestBody: example("A video every weekday", map[string]any{
			"job_type": "video.generate", "model": "testcard", "cron_expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "priority": "normal",
			"payload": map[string]any{"prompt": "The weather of today", "durationSeconds": 4},
		}),
	}, s.createRecurring)
	serve(api, huma.Operation{
		OperationID: "listRecurring", Method: http.MethodGet, Path: recurringPath, Summary: "List schedules",
	}, s.listRecurring)
	serve(api, huma.Operation{
		OperationID: "getRecurring", Method: http.MethodGet, Path: recurringPath + "/{id}", Summary: "Read a schedule",
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *recurringID) (*recurringOutput, error) {
		found, err := s.Schedules.Get(ctx, callerOf(ctx).Principal, in.ID)
		return newRecurring(ctx, found, err)
	})
	serve(api, huma.Operation{
		OperationID: "deleteRecurring", Method: http.MethodDelete, Path: recurringPath + "/{id}", DefaultStatus: http.StatusNoContent, Summary: "Delete a schedule",
		Description: "Jobs and workflows that it has submitted stay.",
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, in *recurringID) (*struct{}, error) {
		return nil, s.Schedules.Delete(ctx, callerOf(ctx).Principal, in.ID)
	})
}

// recurringNames are the request's names of a schedule's fields.
var recurringNames = map[string]string{
	"cron": "cron_expression", "idempotencyKey": "idempotency_key", "everySeconds": "every_seconds", "startAt": "start_at", "endAt": "end_at",
	"job.prompt": "payload.prompt", "job.params": "payload", "job.type": "job_type", "job.model": "model", "job.tier": "priority", "job.callbackUrl": "callback_url",
	"job.userId": "user_id", "job.metadata": "metadata",
}

// recurringWords names the fields of an error as requests do.
func recurringWords(err error) error {
	var e *apierror.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Field, "workflow.") {
		return renamed(err, recurringNames)
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
func (s *service) request(p jobs.Principal, asked *recurringRequest) (r schedule.Request, err error) {
	switch {
	case asked.Workflow == nil && asked.Payload == nil:
		return r, apierror.Invalid("payload", "Give either payload or workflow.")
	case asked.Workflow == nil:
		job, err := s.jobSubmission(p, &jobInput{Body: jobRequest{JobType: asked.JobType, Model: asked.Model, Payload: asked.Payload, Priority: asked.Priority, CallbackURL: asked.CallbackURL, Own: asked.Own}})
		return schedule.Request{Job: &job}, jobWords(err)
	}
	for _, of := range []struct {
		field string
		given bool
	}{
		{"payload", asked.Payload != nil}, {"job_type", asked.JobType != nil}, {"model", asked.Model != nil}, {"priority", asked.Priority != nil}, {"callback_url", asked.CallbackURL != nil},
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

func (s *service) createRecurring(ctx context.Context, in *recurringInput) (*recurringOutput, error) {
	asked, p := in.Body, callerOf(ctx).Principal
	if err := notEmpty(given{"name", asked.Name}, given{"cron_expression", asked.CronExpression}, given{"timezone", asked.Timezone}); err != nil {
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
		CatchUp: models.CatchUp(strings.ToUpper(value(asked.CatchUp))), Overlap: models.RunOverlap(strings.ToUpper(value(asked.Overlap))),
		StartAt: asked.StartAt, EndAt: asked.EndAt, Request: request,
	})
	return newRecurring(ctx, made, recurringWords(err))
}

func (s *service) listRecurring(ctx context.Context, in *recurringPage) (*recurringList, error) {
	page, err := s.Schedules.List(ctx, callerOf(ctx).Principal, "", paging.Request{First: in.Limit, After: in.Cursor})
	if err != nil {
		return nil, err
	}
	out := &recurringList{}
	out.Body.Recurring = []recurring{}
	for _, one := range page.Items {
		shown, err := newRecurring(ctx, one, nil)
		if err != nil {
			return nil, err
		}
		out.Body.Recurring = append(out.Body.Recurring, shown.Body)
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

func newRecurring(ctx context.Context, one *models.Schedule, err error) (*recurringOutput, error) {
	if err != nil {
		return nil, err
	}
	return &recurringOutput{Location: callerOf(ctx).base + recurringPath + "/" + string(one.ID), Body: recurring{
		RecurringID: one.ID, Name: one.Name, CronExpression: one.Cron, EverySeconds: one.EverySeconds, Timezone: one.Timezone, Description: schedule.Describe(one),
		Model: one.Model, Workflow: one.Workflow, Paused: one.Paused(), NextExecuteAt: knownTime(one.NextFireAt), LastExecuteAt: knownTime(one.LastFireAt),
	}}, nil
}
