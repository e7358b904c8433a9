// Package workers has the pages of workers.
package workers

import (
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads *query.Reads
	Fleet *fleet.WorkerOperator
}

// controller serves the pages.
type controller struct {
	*shell.Shell
	Config
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config}
	return []shell.Route{
		{Pattern: "GET /workers", Serve: c.workerList},
		{Pattern: "GET /workers/live", Serve: c.workerListLive},
		{Pattern: "GET /workers/act", Serve: c.workersConfirm, Back: "/workers"},
		{Pattern: "POST /workers/act", Serve: c.workersAct, Back: "/workers"},
		{Pattern: "GET /workers/{id}", Serve: c.workerShow, Back: "/workers"},
		{Pattern: "GET /workers/{id}/live", Serve: c.workerShowLive},
		{Pattern: "GET /workers/{id}/drain", Serve: c.drainAsk, Back: "/workers"},
		{Pattern: "GET /workers/{id}/preempt", Serve: c.preemptAsk, Back: "/workers"},
		{Pattern: "POST /workers/{id}/drain", Serve: c.workerDrain, Back: "/workers"},
		{Pattern: "POST /workers/{id}/preempt", Serve: c.workerPreempt, Back: "/workers"},
		{Pattern: "GET /workers/{id}/quarantine", Serve: c.quarantineAsk},
		{Pattern: "POST /workers/{id}/quarantine", Serve: c.quarantineStart, Back: "/workers"},
		{Pattern: "POST /workers/{id}/release", Serve: c.quarantineEnd, Back: "/workers"},
		{Pattern: "GET /workers/{id}/terminate", Serve: c.workerConfirm},
		{Pattern: "POST /workers/{id}/terminate", Serve: c.workerTerminate, Back: "/workers"},
	}
}
