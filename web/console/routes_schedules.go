package console

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/schedule"
)

// schedulesConfig is what the pages of schedules read and call.
type schedulesConfig struct {
	Reader    *query.Reader
	Schedules *schedule.Schedules
}

// schedulesController serves the pages of schedules.
type schedulesController struct {
	*console
	schedulesConfig
}

// schedulesRoutes lists the pages of schedules.
func schedulesRoutes(pages *console, config schedulesConfig) []route {
	c := &schedulesController{console: pages, schedulesConfig: config}
	return []route{
		{pattern: "GET /schedules", serve: c.scheduleList},
		{pattern: "GET /schedules/live", serve: c.scheduleListLive},
		{pattern: "GET /schedules/new", serve: c.scheduleNew},
		{pattern: "POST /schedules/new", serve: c.scheduleSend, back: "/schedules/new"},
		{pattern: "POST /schedules/preview", serve: c.schedulePreview, back: "/schedules/new"},
		{pattern: "GET /schedules/{id}", serve: c.scheduleShow},
		{pattern: "GET /schedules/{id}/edit", serve: c.scheduleEdit, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/edit", serve: c.scheduleSend, back: "/schedules/{id}/edit"},
		{pattern: "GET /schedules/{id}/pause", serve: c.schedulePauseAsk, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/pause", serve: c.schedulePause, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/resume", serve: c.scheduleResume, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/trigger", serve: c.scheduleTrigger, back: "/schedules/{id}"},
		{pattern: "GET /schedules/{id}/delete", serve: c.scheduleDeleteAsk, back: "/schedules/{id}"},
		{pattern: "POST /schedules/{id}/delete", serve: c.scheduleDelete, back: "/schedules/{id}"},
	}
}
