// Package webhooks has the pages of webhook endpoints, and the parts that show deliveries.
package webhooks

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads    *query.Reads
	Webhooks *webhook.Endpoints
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
		{Pattern: "GET /webhooks", Serve: c.webhookList},
		{Pattern: "GET /webhooks/new", Serve: c.webhookNew},
		{Pattern: "POST /webhooks/new", Serve: c.webhookCreate, Back: "/webhooks/new"},
		{Pattern: "GET /webhooks/bucket", Serve: c.bucketNew},
		{Pattern: "POST /webhooks/bucket", Serve: c.bucketCreate, Back: "/webhooks/bucket"},
		{Pattern: "GET /webhooks/{id}/keys", Serve: c.bucketKeys, Back: "/webhooks"},
		{Pattern: "POST /webhooks/{id}/keys", Serve: c.bucketSetKeys, Back: "/webhooks/{id}/keys"},
		{Pattern: "GET /webhooks/{id}", Serve: c.webhookShow, Back: "/webhooks"},
		{Pattern: "GET /webhooks/{id}/rotate", Serve: c.webhookRotateAsk, Back: "/webhooks"},
		{Pattern: "POST /webhooks/{id}/rotate", Serve: c.webhookRotate, Back: "/webhooks/{id}"},
		{Pattern: "GET /webhooks/{id}/delete", Serve: c.webhookDeleteAsk, Back: "/webhooks"},
		{Pattern: "POST /webhooks/{id}/delete", Serve: c.webhookDelete, Back: "/webhooks"},
		{Pattern: "POST /webhooks/{id}/enable", Serve: c.webhookEnable, Back: "/webhooks/{id}"},
		{Pattern: "GET /webhooks/{id}/disable", Serve: c.webhookDisableAsk, Back: "/webhooks/{id}"},
		{Pattern: "POST /webhooks/{id}/disable", Serve: c.webhookDisable, Back: "/webhooks/{id}"},
		{Pattern: "POST /webhooks/{id}/test", Serve: c.webhookTest, Back: "/webhooks/{id}"},
		{Pattern: "POST /webhooks/deliveries/{id}/redeliver", Serve: c.redeliver, Back: "/webhooks"},
	}
}
