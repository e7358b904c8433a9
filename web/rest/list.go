package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
)

// ListInput narrows a list of jobs and asks for one page of it.
type ListInput struct {
	Search        string `query:"search" maxLength:"500" doc:"Words and key:value terms, all of which a job must match: see docs/users/search.md. Prompts are not searched." example:"class:model_crash age:<1d"`
	Status        string `query:"status" doc:"Filter by status (comma-separated, in any case)." example:"queued,running"`
	Model         string `query:"model" doc:"A model's name."`
	Tier          string `query:"tier" doc:"Filter by tier (comma-separated, in any case)."`
	UserID        string `query:"user_id" doc:"Filter by exact user_id."`
	CreatedAfter  string `query:"created_after" format:"date-time" doc:"Filter by submit time: after this time."`
	CreatedBefore string `query:"created_before" format:"date-time" doc:"Filter by submit time: before this time."`
	Limit         int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The maximum number of jobs on a page."`
	After         string `query:"after" doc:"Cursor: the next of the previous page. Send all other parameters unchanged."`
}

// listNames are the request's names of the domain's fields.
var listNames = map[string]string{"filter.search": "search", "filter.type": "job_type", "filter.model": "model", "filter.userId": "user_id"}

func (in *ListInput) filter() (f joblist.JobFilter, err error) {
	f = joblist.JobFilter{Search: in.Search, Model: in.Model, UserID: in.UserID}
	if f.CreatedAfter, err = readTime("created_after", in.CreatedAfter); err != nil {
		return f, err
	}
	if f.CreatedBefore, err = readTime("created_before", in.CreatedBefore); err != nil {
		return f, err
	}
	if f.Status, err = readNames("status", in.Status, models.JobStatuses); err != nil {
		return f, err
	}
	f.Tier, err = readNames("tier", in.Tier, models.Tiers)
	return f, err
}

// price is what the page costs: see query.Shares.
func (in *ListInput) price() int { return query.PagePrice(in.Limit) + query.SearchPrice }

// list is one page of jobs.
type list[T any] struct {
	Jobs []T     `json:"jobs" nullable:"false" doc:"Newest first."`
	Next *string `json:"next" doc:"Cursor of the next page, for the parameter after. Null on the last page. A page can have fewer jobs than limit, or none, and still have a next."`
}

type listOutput[T any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         list[T]
}

func (s *service) registerLists(api huma.API) {
	const description = "Newest first. A client sees the jobs of its own account, an operator those of all accounts. All parameters narrow together."
	serve(api, huma.Operation{
		OperationID: "listVideos", Method: http.MethodGet, Path: videosPath, Summary: "List video jobs", Description: description,
		Errors: []int{http.StatusNotFound, http.StatusTooManyRequests},
	}, s.listVideos)
	serve(api, huma.Operation{
		OperationID: "listJobs", Method: http.MethodGet, Path: jobsPath, Summary: "List jobs of any type", Description: description,
		Errors: []int{http.StatusNotFound, http.StatusTooManyRequests},
	}, s.listJobs)
}

func (s *service) listVideos(ctx context.Context, in *ListInput) (*listOutput[*wire.Summary], error) {
	ctx, read, err := s.Reads.Shares.Admit(ctx, callerOf(ctx).Principal, in.price())
	if err != nil {
		return nil, err
	}
	defer read.End()
	rows, next, err := s.list(ctx, in, videoType)
	if err != nil {
		return nil, err
	}
	summaries, err := s.Summaries.OfJobs(ctx, callerOf(ctx).Principal, rows, callerOf(ctx).base, linkTTL)
	return &listOutput[*wire.Summary]{CacheControl: "no-store", Body: list[*wire.Summary]{summaries, next}}, err
}

func (s *service) listJobs(ctx context.Context, in *struct {
	ListInput
	JobType string `query:"job_type" doc:"Filter by exact type, such as video.generate."`
}) (*listOutput[*jobView], error) {
	ctx, read, err := s.Reads.Shares.Admit(ctx, callerOf(ctx).Principal, in.price())
	if err != nil {
		return nil, err
	}
	defer read.End()
	rows, next, err := s.list(ctx, &in.ListInput, in.JobType)
	if err != nil {
		return nil, err
	}
	views, err := s.viewJobs(ctx, rows)
	return &listOutput[*jobView]{CacheControl: "no-store", Body: list[*jobView]{views, next}}, err
}

// list returns one page of the jobs that the caller may see, and the cursor of the
// next page if there is one.
func (s *service) list(ctx context.Context, in *ListInput, kind string) (rows []*models.Job, next *string, err error) {
	filter, err := in.filter()
	if err != nil {
		return nil, nil, err
	}
	filter.Type = kind
	page, err := s.Reads.Jobs.List(ctx, callerOf(ctx).Principal, filter, paging.Request{First: in.Limit, After: in.After})
	if err != nil {
		return nil, nil, renamed(err, listNames)
	}
	if page.More {
		next = &page.End
	}
	return page.Items, next, nil
}

// viewJobs returns the views of jobs, in their order.
func (s *service) viewJobs(ctx context.Context, rows []*models.Job) ([]*jobView, error) {
	summaries, err := s.Summaries.OfJobs(ctx, callerOf(ctx).Principal, rows, callerOf(ctx).base, linkTTL)
	if err != nil {
		return nil, err
	}
	inputs, err := s.inputs(ctx, rows)
	if err != nil {
		return nil, err
	}
	deadlines, err := s.deadlines(ctx, rows)
	if err != nil {
		return nil, err
	}
	views := make([]*jobView, len(rows))
	for i, job := range rows {
		views[i] = view(job)
		views[i].Deadline = deadlines[job.ID]
		if files := inputs[job.ID]; len(files) > 0 {
			views[i].Inputs = files
		}
		summary := summaries[i]
		views[i].Generation, views[i].Draft, views[i].PreviewURL = s.generation(job, summary), summary.Draft, summary.PreviewURL
		views[i].CostUSD, views[i].EstimatedCost = summary.CostUSD, summary.EstimatedCostUSD
		if job.Status == models.JobCompleted {
			if views[i].Result, err = result(job, summary); err != nil {
				return nil, err
			}
		}
	}
	return views, nil
}
