package console

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/operate"
)

// queuesConfig is what the pages of queues read and call.
type queuesConfig struct {
	Reader   *query.Reader
	Operator *operate.Operator
}

// queuesController serves the pages of queues.
type queuesController struct {
	*console
	queuesConfig
	charts *chartReader
}

// queuesRoutes lists the pages of queues.
func queuesRoutes(pages *console, config queuesConfig, charts *chartReader) []route {
	c := &queuesController{console: pages, queuesConfig: config, charts: charts}
	return []route{
		{pattern: "GET /queues", serve: c.queueList},
		{pattern: "GET /queues/charts", serve: c.queueCharts},
		{pattern: "GET /queues/{lane}/charts", serve: c.queueCharts},
		{pattern: "GET /queues/live", serve: c.queueListLive},
		{pattern: "GET /queues/{lane}", serve: c.queueShow, back: "/queues"},
		{pattern: "GET /queues/{lane}/live", serve: c.queueShowLive},
		{pattern: "GET /queues/{lane}/pause", serve: c.queueConfirm},
		{pattern: "POST /queues/{lane}/pause", serve: c.queuePause, back: "/queues"},
		{pattern: "POST /queues/{lane}/resume", serve: c.queueResume, back: "/queues"},
	}
}
