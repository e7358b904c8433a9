// Package deadletters has the pages of dead letters, by cause and one by one.
package deadletters

import (
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what these pages read and call.
type Config struct {
	Reads   *query.Reads
	Letters *operate.DeadLetters
	Bulk    *bulk.Bulk
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
		{Pattern: "GET /dead-letters", Serve: c.deadLetterList},
		{Pattern: "GET /dead-letters/live", Serve: c.deadLetterListLive},
		{Pattern: "GET /dead-letters/group", Serve: c.deadLetterGroup, Back: "/dead-letters"},
		{Pattern: "GET /dead-letters/group/live", Serve: c.deadLetterGroupLive},
		{Pattern: "GET /dead-letters/group/redrive", Serve: c.causeRedriveAsk, Back: "/dead-letters"},
		{Pattern: "POST /dead-letters/group/redrive", Serve: c.causeRedrive, Back: "/dead-letters"},
		{Pattern: "GET /dead-letters/group/discard", Serve: c.causeDiscardAsk, Back: "/dead-letters"},
		{Pattern: "POST /dead-letters/group/discard", Serve: c.causeDiscard, Back: "/dead-letters"},
		{Pattern: "GET /dead-letters/{id}", Serve: c.deadLetterShow, Back: "/dead-letters"},
		{Pattern: "GET /dead-letters/{id}/redrive", Serve: c.redriveAsk, Back: "/dead-letters/{id}"},
		{Pattern: "POST /dead-letters/{id}/redrive", Serve: c.redrive, Back: "/dead-letters/{id}"},
		{Pattern: "GET /dead-letters/{id}/discard", Serve: c.discardAsk, Back: "/dead-letters/{id}"},
		{Pattern: "POST /dead-letters/{id}/discard", Serve: c.discard, Back: "/dead-letters/{id}"},
	}
}
