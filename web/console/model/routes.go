// Package model has the pages of models.
package model

import (
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads    *query.Reads
	Registry *registry.Registry
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
		{Pattern: "GET /models", Serve: c.modelList},
		{Pattern: "GET /models/apply", Serve: c.modelApplyForm, Admin: true},
		{Pattern: "POST /models/apply", Serve: c.modelApply, Admin: true, Back: "/models/apply"},
		{Pattern: "GET /models/show/{id}", Serve: c.modelShow},
		{Pattern: "GET /models/show/{id}/remove", Serve: c.modelConfirm, Admin: true},
		{Pattern: "POST /models/show/{id}/remove", Serve: c.modelRemove, Admin: true, Back: "/models"},
		{Pattern: "POST /models/show/{id}/restore", Serve: c.modelRestore, Admin: true, Back: "/models"},
	}
}
