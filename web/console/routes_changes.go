package console

import (
	"github.com/reelay/reelay/features/query"
)

// changesConfig is what the pages of changes read and call.
type changesConfig struct {
	Reader *query.Reader
}

// changesController serves the pages of changes.
type changesController struct {
	*console
	changesConfig
}

// changesRoutes lists the pages of changes.
func changesRoutes(pages *console, config changesConfig) []route {
	c := &changesController{console: pages, changesConfig: config}
	return []route{
		{pattern: "GET /changes", serve: c.changeList},
	}
}
