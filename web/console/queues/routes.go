// Package queues has the pages of queues: lanes, and the models in them.
package queues

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/trends"
)

// Config is what these pages read and call.
type Config struct {
	Reads    *query.Reads
	Operator *operate.QueueOperator
}

// controller serves the pages.
type controller struct {
	*shell.Shell
	Config
	charts *trends.Reader
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config, charts *trends.Reader) []shell.Route {
	c := &controller{Shell: pages, Config: config, charts: charts}
	return []shell.Route{
		{Pattern: "GET /queues", Serve: c.queueList},
		{Pattern: "GET /queues/charts", Serve: c.queueCharts},
		{Pattern: "GET /queues/{lane}/charts", Serve: c.queueCharts},
		{Pattern: "GET /queues/live", Serve: c.queueListLive},
		{Pattern: "GET /queues/{lane}", Serve: c.queueShow, Back: "/queues"},
		{Pattern: "GET /queues/{lane}/live", Serve: c.queueShowLive},
		{Pattern: "GET /queues/{lane}/pause", Serve: c.queueConfirm},
		{Pattern: "POST /queues/{lane}/pause", Serve: c.queuePause, Back: "/queues"},
		{Pattern: "POST /queues/{lane}/resume", Serve: c.queueResume, Back: "/queues"},
	}
}
