// Package bulkops has the pages of operations on many jobs.
package bulkops

import (
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Bulk *bulk.Bulk
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
		{Pattern: "GET /bulk", Serve: c.bulkList},
		{Pattern: "GET /bulk/live", Serve: c.bulkListLive},
		{Pattern: "GET /bulk/new", Serve: c.bulkConfirm, Back: "/jobs"},
		{Pattern: "POST /bulk/new", Serve: c.bulkStart, Back: "/jobs"},
		{Pattern: "GET /bulk/{id}", Serve: c.bulkShow, Back: "/bulk"},
		{Pattern: "GET /bulk/{id}/live", Serve: c.bulkShowLive},
		{Pattern: "POST /bulk/{id}/pause", Serve: c.bulkSteer, Back: "/bulk/{id}"},
		{Pattern: "POST /bulk/{id}/resume", Serve: c.bulkSteer, Back: "/bulk/{id}"},
		{Pattern: "POST /bulk/{id}/cancel", Serve: c.bulkSteer, Back: "/bulk/{id}"},
	}
}
