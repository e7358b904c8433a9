package query

import (
	"context"
	"fmt"
	"strconv"

	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
)

// Events lists the events of each of the jobs after the event of that number, oldest first, at most first of each.
func (e Edges) Events(ctx context.Context, after, first int) (map[models.JobID]*paging.Page[*models.JobEvent], error) {
	if err := paging.ValidFirst(first); err != nil {
		return nil, err
	}
	return e.events(ctx, after, first)
}

// EventPages lists the events of the jobs by page, oldest first.
func (e Edges) EventPages(ctx context.Context, of paging.Request) (map[models.JobID]*paging.Page[*models.JobEvent], error) {
	after := 0
	for _, job := range e.rows {
		mark, err := eventListOf(job.ID).Begin(of)
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
	return e.events(ctx, after, of.First)
}

func eventListOf(job models.JobID) paging.List { return paging.ListOf(paging.EventKind, job) }

func (e Edges) events(ctx context.Context, after, first int) (map[models.JobID]*paging.Page[*models.JobEvent], error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	jobs := e.ids()
	events, err := models.ListEventsOfJobs(ctx, e.jobs.db, jobs, after, first+1)
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
