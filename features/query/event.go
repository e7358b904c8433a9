package query

import (
	"context"
	"fmt"
	"strconv"

	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
)

// Events lists a job's events, oldest first, at most first of those after that number.
func (r *Jobs) Events(ctx context.Context, job models.JobID, after, first int) (*paging.Page[*models.JobEvent], error) {
	if err := paging.ValidFirst(first); err != nil {
		return nil, err
	}
	pages, err := r.eventPages(ctx, []models.JobID{job}, after, first)
	return pages[job], err
}

// EventPages lists the events of jobs by page, oldest first.
func (r *Jobs) EventPages(ctx context.Context, jobs []models.JobID, of paging.Request) (map[models.JobID]*paging.Page[*models.JobEvent],
	error) {
	after := 0
	for _, job := range jobs {
		mark, err := eventListOf(job).Begin(of)
		if err != nil {
			return nil, err
		}
		if mark == "" {
			continue
		}
		if after, err = strconv.Atoi(mark); err != nil || after < 0 {
			return nil, paging.ErrCursor
		}
	}
	return r.eventPages(ctx, jobs, after, of.First)
}

func eventListOf(job models.JobID) paging.List { return paging.ListOf(paging.EventKind, job) }

func (r *Jobs) eventPages(ctx context.Context, jobs []models.JobID, after, first int) (map[models.JobID]*paging.Page[*models.JobEvent],
	error) {
	events, err := models.ListEventsOfJobs(ctx, r.db, jobs, after, first+1)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	found := map[models.JobID][]*models.JobEvent{}
	for _, e := range events {
		found[e.JobID] = append(found[e.JobID], e)
	}
	pages := make(map[models.JobID]*paging.Page[*models.JobEvent], len(jobs))
	for _, id := range jobs {
		pages[id] = paging.NewPage(eventListOf(id), found[id], first, func(e *models.JobEvent) string { return strconv.Itoa(e.Seq) })
	}
	return pages, nil
}
