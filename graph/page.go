package graph

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/models/webhooks"
)

// defaultPage is the size of a page if the caller does not choose one.
const defaultPage = 50

// PageInfo says how a list continues after a page.
type PageInfo struct {
	HasNextPage bool
	EndCursor   *string
}

// Edge is one row of a page.
type Edge[T any] struct {
	Cursor string
	Node   *T
}

// Connection is one page of a list.
type Connection[T any] struct {
	Edges    []*Edge[T]
	PageInfo *PageInfo
}

// The edges and connections of the schema.
type (
	AccountEdge               = Edge[models.Account]
	AccountConnection         = Connection[models.Account]
	AuditEdge                 = Edge[query.Act]
	AuditConnection           = Connection[query.Act]
	ChangeEdge                = Edge[query.Change]
	ChangeConnection          = Connection[query.Change]
	BulkOperationEdge         = Edge[joblist.BulkOperation]
	BulkOperationConnection   = Connection[joblist.BulkOperation]
	JobEventEdge              = Edge[models.JobEvent]
	JobEventConnection        = Connection[models.JobEvent]
	ScheduleEdge              = Edge[schedules.Schedule]
	ScheduleConnection        = Connection[schedules.Schedule]
	WorkflowEdge              = Edge[models.Workflow]
	WorkflowConnection        = Connection[models.Workflow]
	WebhookDeliveryEdge       = Edge[webhooks.Delivery]
	WebhookDeliveryConnection = Connection[webhooks.Delivery]
	DeadLetterEdge            = Edge[models.DeadLetter]
	JobEdge                   = Edge[models.Job]
	WorkerEdge                = Edge[models.Worker]
	MachineEdge               = Edge[capacity.BilledMachine]
	MachineConnection         = Connection[capacity.BilledMachine]
)

// The connections that have a totalCount. They keep their filter, because rows are
// counted only if the caller asks for it.
type (
	// DeadLetterConnection is one page of dead letters.
	DeadLetterConnection struct {
		Connection[models.DeadLetter]
		filter models.DeadLetterFilter
	}
	// JobConnection is one page of jobs.
	JobConnection struct {
		Connection[models.Job]
		filter joblist.JobFilter
	}
	// WorkerConnection is one page of workers.
	WorkerConnection struct {
		Connection[models.Worker]
		filter models.WorkerFilter
	}
)

func pageOf(first *int, after *string) paging.Request {
	return paging.Request{First: valueOr(first, defaultPage), After: valueOr(after, "")}
}

// connect makes the connection of a page.
func connect[T any](page *paging.Page[*T]) *Connection[T] {
	c := &Connection[T]{Edges: make([]*Edge[T], 0, len(page.Items)), PageInfo: &PageInfo{HasNextPage: page.More}}
	for i, row := range page.Items {
		c.Edges = append(c.Edges, &Edge[T]{page.Cursors[i], row})
	}
	if page.End != "" {
		c.PageInfo.EndCursor = &page.End
	}
	return c
}

// connected is connect for a page that may have failed.
func connected[T any](page *paging.Page[*T], err error) (*Connection[T], error) {
	if err != nil {
		return nil, err
	}
	return connect(page), nil
}
