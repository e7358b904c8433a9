// Package workflows has the pages of workflows.
package workflows

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads     *query.Reads
	Workflows *workflow.Workflows
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
		{Pattern: "GET /workflows", Serve: c.workflowList},
		{Pattern: "GET /workflows/live", Serve: c.workflowListLive},
		{Pattern: "GET /workflows/{id}", Serve: c.workflowShow},
		{Pattern: "GET /workflows/{id}/live", Serve: c.workflowShowLive},
		{Pattern: "GET /workflows/{id}/cancel", Serve: c.workflowCancelAsk, Back: "/workflows/{id}"},
		{Pattern: "POST /workflows/{id}/cancel", Serve: c.workflowCancel, Back: "/workflows/{id}"},
		{Pattern: "POST /workflows/{id}/retry", Serve: c.workflowRetry, Back: "/workflows/{id}"},
		{Pattern: "GET /workflows/{id}/answer", Serve: c.answerAsk, Back: "/workflows/{id}"},
		{Pattern: "POST /workflows/{id}/answer", Serve: c.answer, Back: "/workflows/{id}"},
		{Pattern: "GET " + query.ApprovalPath + "{token}", Serve: c.linked, Open: true},
		{Pattern: "POST " + query.ApprovalPath + "{token}", Serve: c.answerLinked, Open: true},
		{Pattern: "POST /workflows/{id}/skip", Serve: c.workflowSkip, Back: "/workflows/{id}"},
		{Pattern: "POST /workflows/{id}/override", Serve: c.workflowOverride, Back: "/workflows/{id}"},
	}
}
