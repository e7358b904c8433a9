// Package overview has the first page and the heat map.
package overview

import (
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/trends"
)

// Config is what these pages read and call.
type Config struct {
	Reads *query.Reads
	// Alerts are those that fire.
	Alerts *alert.Desk
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
		{Pattern: "GET /overview", Serve: c.overview},
		{Pattern: "GET /overview/live", Serve: c.overviewLive},
		{Pattern: "GET /overview/charts", Serve: c.overviewCharts},
		{Pattern: "GET /heatmap", Serve: c.heatMap},
		{Pattern: "GET /heatmap/live", Serve: c.heatMapLive},
		{Pattern: "GET /heatmap/charts", Serve: c.heatCharts},
	}
}
