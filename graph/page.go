package graph

import (
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/models"
)

// defaultPage is the size of a page when the caller does not say.
const defaultPage = 50

// PageInfo tells how a list goes on.
type PageInfo struct {
	HasNextPage bool
	EndCursor   *string
}

// JobEdge is one job of a list.
type JobEdge struct {
	Cursor string
	Node   *models.Job
}

// JobConnection is one page of jobs. The filter is kept for its totalCount,
// which is counted only if it is asked for.
type JobConnection struct {
	Edges    []*JobEdge
	PageInfo *PageInfo
	filter   models.JobFilter
}

// JobEventEdge is one event of a job's history.
type JobEventEdge struct {
	Cursor string
	Node   *models.JobEvent
}

// JobEventConnection is one page of a job's history.
type JobEventConnection struct {
	Edges    []*JobEventEdge
	PageInfo *PageInfo
}

// WorkerEdge is one worker of a list.
type WorkerEdge struct {
	Cursor string
	Node   *models.Worker
}

// WorkerConnection is one page of workers.
type WorkerConnection struct {
	Edges    []*WorkerEdge
	PageInfo *PageInfo
	filter   models.WorkerFilter
}

// DeadLetterEdge is one dead letter of a list.
type DeadLetterEdge struct {
	Cursor string
	Node   *models.DeadLetter
}

// DeadLetterConnection is one page of dead letters.
type DeadLetterConnection struct {
	Edges    []*DeadLetterEdge
	PageInfo *PageInfo
	filter   models.DeadLetterFilter
}

// BulkOperationEdge is one bulk operation of a list.
type BulkOperationEdge struct {
	Cursor string
	Node   *models.BulkOperation
}

// BulkOperationConnection is one page of bulk operations.
type BulkOperationConnection struct {
	Edges    []*BulkOperationEdge
	PageInfo *PageInfo
}

func pageOf(first *int, after *string) paging.Request {
	return paging.Request{First: valueOr(first, defaultPage), After: valueOr(after, "")}
}

// connect makes the edges of a page, and tells how the list goes on.
func connect[T, E any](page *paging.Page[T], edge func(cursor string, node T) E) ([]E, *PageInfo) {
	edges, info := make([]E, 0, len(page.Items)), &PageInfo{HasNextPage: page.More}
	for i, item := range page.Items {
		edges = append(edges, edge(page.Cursors[i], item))
	}
	if page.End != "" {
		info.EndCursor = &page.End
	}
	return edges, info
}

func jobConnection(page *paging.Page[*models.Job], filter models.JobFilter) *JobConnection {
	edges, info := connect(page, func(cursor string, j *models.Job) *JobEdge { return &JobEdge{cursor, j} })
	return &JobConnection{edges, info, filter}
}

func eventConnection(page *paging.Page[*models.JobEvent]) *JobEventConnection {
	edges, info := connect(page, func(cursor string, e *models.JobEvent) *JobEventEdge { return &JobEventEdge{cursor, e} })
	return &JobEventConnection{edges, info}
}

func workerConnection(page *paging.Page[*models.Worker], filter models.WorkerFilter) *WorkerConnection {
	edges, info := connect(page, func(cursor string, w *models.Worker) *WorkerEdge { return &WorkerEdge{cursor, w} })
	return &WorkerConnection{edges, info, filter}
}

func deadLetterConnection(page *paging.Page[*models.DeadLetter], filter models.DeadLetterFilter) *DeadLetterConnection {
	edges, info := connect(page, func(cursor string, d *models.DeadLetter) *DeadLetterEdge { return &DeadLetterEdge{cursor, d} })
	return &DeadLetterConnection{edges, info, filter}
}

func bulkConnection(page *paging.Page[*models.BulkOperation]) *BulkOperationConnection {
	edges, info := connect(page, func(cursor string, op *models.BulkOperation) *BulkOperationEdge {
		return &BulkOperationEdge{cursor, op}
	})
	return &BulkOperationConnection{edges, info}
}
