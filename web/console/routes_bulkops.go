package console

import (
	"github.com/reelay/reelay/features/bulk"
)

// bulkopsConfig is what the pages of bulk operations read and call.
type bulkopsConfig struct {
	Bulk *bulk.Bulk
}

// bulkopsController serves the pages of bulk operations.
type bulkopsController struct {
	*console
	bulkopsConfig
}

// bulkopsRoutes lists the pages of bulk operations.
func bulkopsRoutes(pages *console, config bulkopsConfig) []route {
	c := &bulkopsController{console: pages, bulkopsConfig: config}
	return []route{
		{pattern: "GET /bulk", serve: c.bulkList},
		{pattern: "GET /bulk/live", serve: c.bulkListLive},
		{pattern: "GET /bulk/new", serve: c.bulkConfirm, back: "/jobs"},
		{pattern: "POST /bulk/new", serve: c.bulkStart, back: "/jobs"},
		{pattern: "GET /bulk/{id}", serve: c.bulkShow, back: "/bulk"},
		{pattern: "GET /bulk/{id}/live", serve: c.bulkShowLive},
		{pattern: "POST /bulk/{id}/pause", serve: c.bulkSteer, back: "/bulk/{id}"},
		{pattern: "POST /bulk/{id}/resume", serve: c.bulkSteer, back: "/bulk/{id}"},
		{pattern: "POST /bulk/{id}/cancel", serve: c.bulkSteer, back: "/bulk/{id}"},
	}
}
