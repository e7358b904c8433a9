// Package pools has the pages of pools.
package pools

import (
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads     *query.Reads
	Fleet     *fleet.WorkerOperator
	Pools     *fleet.Pools
	Engines   *fleet.Engines
	Providers *hosted.Accounts
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
		{Pattern: "GET /pools", Serve: c.poolList},
		{Pattern: "GET /pools/live", Serve: c.poolListLive},
		{Pattern: "GET /pools/new", Serve: c.poolNew},
		{Pattern: "POST /pools/new", Serve: c.poolCreate, Back: "/pools/new"},
		{Pattern: "GET " + machinesPath, Serve: c.machineList},
		{Pattern: "GET " + machinesPath + "/live", Serve: c.machineListLive},
		{Pattern: "GET /pools/{id}", Serve: c.poolShow},
		{Pattern: "GET /pools/{id}/live", Serve: c.poolShowLive},
		{Pattern: "GET /pools/{id}/edit", Serve: c.poolEdit, Back: "/pools/{id}"},
		{Pattern: "POST /pools/{id}/edit", Serve: c.poolUpdate, Back: "/pools/{id}"},
		{Pattern: "POST /pools/{id}/pause", Serve: c.poolPause, Back: "/pools/{id}"},
		{Pattern: "POST /pools/{id}/resume", Serve: c.poolResume, Back: "/pools/{id}"},
		{Pattern: "POST /pools/{id}/engines/hold", Serve: c.holdEngine, Back: "/pools/{id}"},
		{Pattern: "POST /pools/{id}/engines/resume", Serve: c.resumeEngine, Back: "/pools/{id}"},
		{Pattern: "POST /pools/{id}/provider/reset", Serve: c.resetProvider, Back: "/pools/{id}"},
		{Pattern: "GET /pools/{id}/delete", Serve: c.poolConfirm, Back: "/pools/{id}"},
		{Pattern: "POST /pools/{id}/delete", Serve: c.poolDelete, Back: "/pools/{id}"},
	}
}
