package rest

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/jobs/schedule"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const recurringPath = jobsPath + "/recurring"

// recurringRequest makes a schedule that submits a job again and again.
type recurringRequest struct {
	Name           *string    `json:"name,omitempty" doc:"Unique in the account. The default is made of the model and the time."`
	JobType        *string    `json:"job_type,omitempty" doc:"The type of the job. The default is the model's type." example:"video.generate"`
	Model          *string    `json:"model,omitempty" doc:"A model's name. The default is the first model of the catalogue with this type."`
	CronExpression *string    `json:"cron_expression,omitempty" doc:"Five fields, six with the second first, or a macro such as @daily. Give either this or every_seconds." example:"0 9 * * MON-FRI"`
	EverySeconds   *int       `json:"every_seconds,omitempty" doc:"An interval in real time, 1 to 31,622,400."`
	Timezone       *string    `json:"timezone,omitempty" doc:"A name of the IANA database. The default is UTC." example:"Europe/Berlin"`
	Payload        object     `json:"payload" doc:"The prompt and the model's parameters."`
	Priority       *string    `json:"priority,omitempty" enum:"critical,high,normal,low"`
	CatchUp        *string    `json:"catch_up,omitempty" enum:"skip,coalesce,all" doc:"What happens to slots that passed while no process could fire them. The default is coalesce: the last one fires."`
	Overlap        *string    `json:"overlap,omitempty" enum:"allow,skip,cancel_previous" doc:"What happens to a slot while a job of an earlier one has not ended. The default is allow."`
	StartAt        *time.Time `json:"start_at,omitempty"`
	EndAt          *time.Time `json:"end_at,omitempty"`
	CallbackURL    *string    `json:"callback_url,omitempty" doc:"An https URL that receives a webhook when a run of one of the jobs ends."`
}

// recurring is a schedule.
type recurring struct {
	RecurringID    models.ScheduleID `json:"recurring_id"`
	Name           string            `json:"name"`
	CronExpression string            `json:"cron_expression,omitempty"`
	EverySeconds   int               `json:"every_seconds,omitempty"`
	Timezone       string            `json:"timezone"`
	Description    string            `json:"description" doc:"When it fires, in words."`
	Model          string            `json:"model"`
	Paused         bool              `json:"paused"`
	NextExecuteAt  *time.Time        `json:"next_execute_at" doc:"Null while it is paused, and after its last slot."`
	LastExecuteAt  *time.Time        `json:"last_execute_at"`
}

type recurringInput struct {
	Body recurringRequest
}

type recurringOutput struct {
	Location string `header:"Location"`
	Body     recurring
}

type recurringID struct {
	ID models.ScheduleID `path:"id"`
}

type recurringList struct {
	Body struct {
		Recurring  []recurring `json:"recurring" nullable:"false"`
		NextCursor string      `json:"next_cursor,omitempty" doc:"The cursor of the next page, if there is one."`
	}
}

type recurringPage struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before."`
}

func (s *service) registerRecurring(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "createRecurring", Method: http.MethodPost, Path: recurringPath, DefaultStatus: http.StatusCreated, Summary: "Submit a job again and again",
		Errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests},
		RequestBody: example("A video every weekday", map[string]any{
			"job_type": "video.generate", "model": "testcard", "cron_expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "priority": "normal",
			"payload": map[string]any{"prompt": "The weather of today", "durationSeconds": 4},
		}),
	}, s.createRecurring)
	serve(api, huma.Operation{
		OperationID: "listRecurring", Method: http.MethodGet, Path: recurringPath, Summary: "List what is submitted again and again",
	}, s.listRecurring)
	serve(api, huma.Operation{
		OperationID: "getRecurring", Method: http.MethodGet, Path: recurringPath + "/{id}", Summary: "Read what is submitted again and again",
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *recurringID) (*recurringOutput, error) {
		found, err := s.Schedules.Get(ctx, callerOf(ctx).Principal, in.ID)
		return newRecurring(ctx, found, err)
	})
	serve(api, huma.Operation{
		OperationID: "deleteRecurring", Method: http.MethodDelete, Path: recurringPath + "/{id}", DefaultStatus: http.StatusNoContent, Summary: "End what is submitted again and again",
		Description: "The jobs that it has submitted stay.",
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, in *recurringID) (*struct{}, error) {
		return nil, s.Schedules.Delete(ctx, callerOf(ctx).Principal, in.ID)
	})
}

// recurringNames are the request's names of a schedule's fields.
var recurringNames = map[string]string{
	"cron": "cron_expression", "everySeconds": "every_seconds", "startAt": "start_at", "endAt": "end_at",
	"job.prompt": "payload.prompt", "job.params": "payload", "job.type": "job_type", "job.model": "model", "job.tier": "priority", "job.callbackUrl": "callback_url",
}

func (s *service) createRecurring(ctx context.Context, in *recurringInput) (*recurringOutput, error) {
	asked, p := in.Body, callerOf(ctx).Principal
	job, err := s.jobSubmission(p, &jobInput{Body: jobRequest{JobType: asked.JobType, Model: asked.Model, Payload: asked.Payload, Priority: asked.Priority, CallbackURL: asked.CallbackURL}})
	if err != nil {
		return nil, jobWords(err)
	}
	made, err := s.Schedules.Create(ctx, p, schedule.Input{
		Name: cmp.Or(value(asked.Name), job.Model+" "+time.Now().UTC().Format("2006-01-02 15:04:05.000000")),
		Cron: value(asked.CronExpression), EverySeconds: lo.FromPtr(asked.EverySeconds), Timezone: value(asked.Timezone),
		CatchUp: models.CatchUp(strings.ToUpper(value(asked.CatchUp))), Overlap: models.RunOverlap(strings.ToUpper(value(asked.Overlap))),
		StartAt: asked.StartAt, EndAt: asked.EndAt, Job: job,
	})
	return newRecurring(ctx, made, renamed(err, recurringNames))
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
	return out, nil
}

func newRecurring(ctx context.Context, one *models.Schedule, err error) (*recurringOutput, error) {
	if err != nil {
		return nil, err
	}
	return &recurringOutput{Location: callerOf(ctx).base + recurringPath + "/" + string(one.ID), Body: recurring{
		RecurringID: one.ID, Name: one.Name, CronExpression: one.Cron, EverySeconds: one.EverySeconds, Timezone: one.Timezone, Description: schedule.Describe(one),
		Model: one.Model, Paused: one.Paused(), NextExecuteAt: knownTime(one.NextFireAt), LastExecuteAt: knownTime(one.LastFireAt),
	}}, nil
}
