package console

import (
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
)

// workersConfig is what the pages of workers read and call.
type workersConfig struct {
	Reader *query.Reader
	Fleet  *fleet.Operator
}

// workersController serves the pages of workers.
type workersController struct {
	*console
	workersConfig
}

// workersRoutes lists the pages of workers.
func workersRoutes(pages *console, config workersConfig) []route {
	c := &workersController{console: pages, workersConfig: config}
	return []route{
		{pattern: "GET /workers", serve: c.workerList},
		{pattern: "GET /workers/live", serve: c.workerListLive},
		{pattern: "GET /workers/act", serve: c.workersConfirm, back: "/workers"},
		{pattern: "POST /workers/act", serve: c.workersAct, back: "/workers"},
		{pattern: "GET /workers/{id}", serve: c.workerShow, back: "/workers"},
		{pattern: "GET /workers/{id}/live", serve: c.workerShowLive},
		{pattern: "GET /workers/{id}/drain", serve: c.drainAsk, back: "/workers"},
		{pattern: "GET /workers/{id}/preempt", serve: c.preemptAsk, back: "/workers"},
		{pattern: "POST /workers/{id}/drain", serve: c.workerDrain, back: "/workers"},
		{pattern: "POST /workers/{id}/preempt", serve: c.workerPreempt, back: "/workers"},
		{pattern: "GET /workers/{id}/quarantine", serve: c.quarantineAsk},
		{pattern: "POST /workers/{id}/quarantine", serve: c.quarantineStart, back: "/workers"},
		{pattern: "POST /workers/{id}/release", serve: c.quarantineEnd, back: "/workers"},
		{pattern: "GET /workers/{id}/terminate", serve: c.workerConfirm},
		{pattern: "POST /workers/{id}/terminate", serve: c.workerTerminate, back: "/workers"},
	}
}
