// Package schedules has the pages of schedules.
package schedules

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads     *query.Reads
	Schedules *schedule.Schedules
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
		{Pattern: "GET /schedules", Serve: c.scheduleList},
		{Pattern: "GET /schedules/live", Serve: c.scheduleListLive},
		{Pattern: "GET /schedules/new", Serve: c.scheduleNew},
		{Pattern: "POST /schedules/new", Serve: c.scheduleSend, Back: "/schedules/new"},
		{Pattern: "POST /schedules/preview", Serve: c.schedulePreview, Back: "/schedules/new"},
		{Pattern: "GET /schedules/{id}", Serve: c.scheduleShow},
		{Pattern: "GET /schedules/{id}/edit", Serve: c.scheduleEdit, Back: "/schedules/{id}"},
		{Pattern: "POST /schedules/{id}/edit", Serve: c.scheduleSend, Back: "/schedules/{id}/edit"},
		{Pattern: "GET /schedules/{id}/pause", Serve: c.schedulePauseAsk, Back: "/schedules/{id}"},
		{Pattern: "POST /schedules/{id}/pause", Serve: c.schedulePause, Back: "/schedules/{id}"},
		{Pattern: "POST /schedules/{id}/resume", Serve: c.scheduleResume, Back: "/schedules/{id}"},
		{Pattern: "POST /schedules/{id}/trigger", Serve: c.scheduleTrigger, Back: "/schedules/{id}"},
		{Pattern: "GET /schedules/{id}/delete", Serve: c.scheduleDeleteAsk, Back: "/schedules/{id}"},
		{Pattern: "POST /schedules/{id}/delete", Serve: c.scheduleDelete, Back: "/schedules/{id}"},
	}
}
