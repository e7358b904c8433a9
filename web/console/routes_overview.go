package console

import (
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/query"
)

// overviewConfig is what the pages of the overview and the heat map read and call.
type overviewConfig struct {
	Reader *query.Reader
	// Alerts are those that fire.
	Alerts *alert.Desk
}

// overviewController serves the pages of the overview and the heat map.
type overviewController struct {
	*console
	overviewConfig
	charts *chartReader
}

// overviewRoutes lists the pages of the overview and the heat map.
func overviewRoutes(pages *console, config overviewConfig, charts *chartReader) []route {
	c := &overviewController{console: pages, overviewConfig: config, charts: charts}
	return []route{
		{pattern: "GET /overview", serve: c.overview},
		{pattern: "GET /overview/live", serve: c.overviewLive},
		{pattern: "GET /overview/charts", serve: c.overviewCharts},
		{pattern: "GET /heatmap", serve: c.heatMap},
		{pattern: "GET /heatmap/live", serve: c.heatMapLive},
		{pattern: "GET /heatmap/charts", serve: c.heatCharts},
	}
}
