package console

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/webhook"
)

// webhooksConfig is what the pages of webhook endpoints read and call.
type webhooksConfig struct {
	Reader   *query.Reader
	Webhooks *webhook.Endpoints
}

// webhooksController serves the pages of webhook endpoints.
type webhooksController struct {
	*console
	webhooksConfig
}

// webhooksRoutes lists the pages of webhook endpoints.
func webhooksRoutes(pages *console, config webhooksConfig) []route {
	c := &webhooksController{console: pages, webhooksConfig: config}
	return []route{
		{pattern: "GET /webhooks", serve: c.webhookList},
		{pattern: "GET /webhooks/new", serve: c.webhookNew},
		{pattern: "POST /webhooks/new", serve: c.webhookCreate, back: "/webhooks/new"},
		{pattern: "GET /webhooks/{id}", serve: c.webhookShow, back: "/webhooks"},
		{pattern: "GET /webhooks/{id}/rotate", serve: c.webhookRotateAsk, back: "/webhooks"},
		{pattern: "POST /webhooks/{id}/rotate", serve: c.webhookRotate, back: "/webhooks/{id}"},
		{pattern: "GET /webhooks/{id}/delete", serve: c.webhookDeleteAsk, back: "/webhooks"},
		{pattern: "POST /webhooks/{id}/delete", serve: c.webhookDelete, back: "/webhooks"},
		{pattern: "POST /webhooks/{id}/enable", serve: c.webhookEnable, back: "/webhooks/{id}"},
		{pattern: "GET /webhooks/{id}/disable", serve: c.webhookDisableAsk, back: "/webhooks/{id}"},
		{pattern: "POST /webhooks/{id}/disable", serve: c.webhookDisable, back: "/webhooks/{id}"},
		{pattern: "POST /webhooks/{id}/test", serve: c.webhookTest, back: "/webhooks/{id}"},
		{pattern: "POST /webhooks/deliveries/{id}/redeliver", serve: c.redeliver, back: "/webhooks"},
	}
}
