package console

import (
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/operate"
)

// deadlettersConfig is what the pages of dead letters read and call.
type deadlettersConfig struct {
	Reader  *query.Reader
	Letters *operate.DeadLetters
	Bulk    *bulk.Bulk
}

// deadlettersController serves the pages of dead letters.
type deadlettersController struct {
	*console
	deadlettersConfig
}

// deadlettersRoutes lists the pages of dead letters.
func deadlettersRoutes(pages *console, config deadlettersConfig) []route {
	c := &deadlettersController{console: pages, deadlettersConfig: config}
	return []route{
		{pattern: "GET /dead-letters", serve: c.deadLetterList},
		{pattern: "GET /dead-letters/live", serve: c.deadLetterListLive},
		{pattern: "GET /dead-letters/group", serve: c.deadLetterGroup, back: "/dead-letters"},
		{pattern: "GET /dead-letters/group/live", serve: c.deadLetterGroupLive},
		{pattern: "GET /dead-letters/group/redrive", serve: c.causeRedriveAsk, back: "/dead-letters"},
		{pattern: "POST /dead-letters/group/redrive", serve: c.causeRedrive, back: "/dead-letters"},
		{pattern: "GET /dead-letters/group/discard", serve: c.causeDiscardAsk, back: "/dead-letters"},
		{pattern: "POST /dead-letters/group/discard", serve: c.causeDiscard, back: "/dead-letters"},
		{pattern: "GET /dead-letters/{id}", serve: c.deadLetterShow, back: "/dead-letters"},
		{pattern: "GET /dead-letters/{id}/redrive", serve: c.redriveAsk, back: "/dead-letters/{id}"},
		{pattern: "POST /dead-letters/{id}/redrive", serve: c.redrive, back: "/dead-letters/{id}"},
		{pattern: "GET /dead-letters/{id}/discard", serve: c.discardAsk, back: "/dead-letters/{id}"},
		{pattern: "POST /dead-letters/{id}/discard", serve: c.discard, back: "/dead-letters/{id}"},
	}
}
