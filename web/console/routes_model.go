package console

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/registry"
)

// modelConfig is what the pages of models read and call.
type modelConfig struct {
	Reader   *query.Reader
	Registry *registry.Registry
}

// modelController serves the pages of models.
type modelController struct {
	*console
	modelConfig
}

// modelRoutes lists the pages of models.
func modelRoutes(pages *console, config modelConfig) []route {
	c := &modelController{console: pages, modelConfig: config}
	return []route{
		{pattern: "GET /models", serve: c.modelList},
		{pattern: "GET /models/apply", serve: c.modelApplyForm, admin: true},
		{pattern: "POST /models/apply", serve: c.modelApply, admin: true, back: "/models/apply"},
		{pattern: "GET /models/show/{id}", serve: c.modelShow},
		{pattern: "GET /models/show/{id}/remove", serve: c.modelConfirm, admin: true},
		{pattern: "POST /models/show/{id}/remove", serve: c.modelRemove, admin: true, back: "/models"},
		{pattern: "POST /models/show/{id}/restore", serve: c.modelRestore, admin: true, back: "/models"},
	}
}
