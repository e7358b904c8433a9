package console

import (
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
)

// poolsConfig is what the pages of pools read and call.
type poolsConfig struct {
	Reader *query.Reader
	Fleet  *fleet.Operator
	Pools  *fleet.Pools
}

// poolsController serves the pages of pools.
type poolsController struct {
	*console
	poolsConfig
}

// poolsRoutes lists the pages of pools.
func poolsRoutes(pages *console, config poolsConfig) []route {
	c := &poolsController{console: pages, poolsConfig: config}
	return []route{
		{pattern: "GET /pools", serve: c.poolList},
		{pattern: "GET /pools/live", serve: c.poolListLive},
		{pattern: "GET /pools/new", serve: c.poolNew},
		{pattern: "POST /pools/new", serve: c.poolCreate, back: "/pools/new"},
		{pattern: "GET /pools/{id}", serve: c.poolShow},
		{pattern: "GET /pools/{id}/live", serve: c.poolShowLive},
		{pattern: "GET /pools/{id}/edit", serve: c.poolEdit, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/edit", serve: c.poolUpdate, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/pause", serve: c.poolPause, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/resume", serve: c.poolResume, back: "/pools/{id}"},
		{pattern: "GET /pools/{id}/delete", serve: c.poolConfirm, back: "/pools/{id}"},
		{pattern: "POST /pools/{id}/delete", serve: c.poolDelete, back: "/pools/{id}"},
	}
}
