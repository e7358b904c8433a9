// Package alerts has the pages of alerts and silences.
package alerts

import (
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/web/console/shell"
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
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config}
	return []shell.Route{
		{Pattern: "GET /alerts", Serve: c.alertList},
		{Pattern: "GET /alerts/live", Serve: c.alertListLive},
		{Pattern: "GET /alerts/rules/{name}", Serve: c.alertRule},
		{Pattern: "POST /alerts/{id}/acknowledge", Serve: c.alertAcknowledge, Back: "/alerts"},
		{Pattern: "GET /alerts/silence", Serve: c.silenceAsk},
		{Pattern: "POST /alerts/silence", Serve: c.silenceStart, Back: "/alerts/silence"},
		{Pattern: "POST /alerts/silence/{id}/end", Serve: c.silenceEnd, Back: "/alerts"},
		{Pattern: "POST /alerts/routes/{name}/test", Serve: c.routeTest, Back: "/alerts"},
	}
}
