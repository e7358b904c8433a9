package console

import (
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/query"
)

// alertsConfig is what the pages of alerts read and call.
type alertsConfig struct {
	Reader *query.Reader
	// Alerts are those that fire.
	Alerts *alert.Desk
}

// alertsController serves the pages of alerts.
type alertsController struct {
	*console
	alertsConfig
}

// alertsRoutes lists the pages of alerts.
func alertsRoutes(pages *console, config alertsConfig) []route {
	c := &alertsController{console: pages, alertsConfig: config}
	return []route{
		{pattern: "GET /alerts", serve: c.alertList},
		{pattern: "GET /alerts/live", serve: c.alertListLive},
		{pattern: "GET /alerts/rules/{name}", serve: c.alertRule},
		{pattern: "POST /alerts/{id}/acknowledge", serve: c.alertAcknowledge, back: "/alerts"},
		{pattern: "GET /alerts/silence", serve: c.silenceAsk},
		{pattern: "POST /alerts/silence", serve: c.silenceStart, back: "/alerts/silence"},
		{pattern: "POST /alerts/silence/{id}/end", serve: c.silenceEnd, back: "/alerts"},
		{pattern: "POST /alerts/routes/{name}/test", serve: c.routeTest, back: "/alerts"},
	}
}
