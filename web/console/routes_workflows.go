package console

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/workflow"
)

// workflowsConfig is what the pages of workflows read and call.
type workflowsConfig struct {
	Reader    *query.Reader
	Workflows *workflow.Workflows
}

// workflowsController serves the pages of workflows.
type workflowsController struct {
	*console
	workflowsConfig
}

// workflowsRoutes lists the pages of workflows.
func workflowsRoutes(pages *console, config workflowsConfig) []route {
	c := &workflowsController{console: pages, workflowsConfig: config}
	return []route{
		{pattern: "GET /workflows", serve: c.workflowList},
		{pattern: "GET /workflows/live", serve: c.workflowListLive},
		{pattern: "GET /workflows/{id}", serve: c.workflowShow},
		{pattern: "GET /workflows/{id}/live", serve: c.workflowShowLive},
		{pattern: "GET /workflows/{id}/cancel", serve: c.workflowCancelAsk, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/cancel", serve: c.workflowCancel, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/retry", serve: c.workflowRetry, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/skip", serve: c.workflowSkip, back: "/workflows/{id}"},
		{pattern: "POST /workflows/{id}/override", serve: c.workflowOverride, back: "/workflows/{id}"},
	}
}
