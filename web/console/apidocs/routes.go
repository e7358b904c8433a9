// Package apidocs has the pages of the two APIs: GraphiQL and the reference of REST.
package apidocs

import "github.com/reelay/reelay/web/console/shell"

// Config is what these pages read and call.
type Config struct {
	// OpenAPI is the document of the REST API, for the page about it; nil for no page.
	OpenAPI []byte
}

// controller serves the pages.
type controller struct {
	*shell.Shell
	Config
	restAPI *apiDocs
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config, restAPI: readOpenAPI(config.OpenAPI)}
	return []shell.Route{
		{Pattern: "GET /graphql", Serve: c.graphiql, Open: true},
		{Pattern: "GET /api/docs", Serve: c.apiDocs, Open: true},
	}
}
