package console

// apidocsConfig is what the pages of the two APIs read and call.
type apidocsConfig struct {
	// OpenAPI is the document of the REST API, for the page about it; nil for no page.
	OpenAPI []byte
}

// apidocsController serves the pages of the two APIs.
type apidocsController struct {
	*console
	apidocsConfig
	restAPI *apiDocs
}

// apidocsRoutes lists the pages of the two APIs.
func apidocsRoutes(pages *console, config apidocsConfig) []route {
	c := &apidocsController{console: pages, apidocsConfig: config, restAPI: readOpenAPI(config.OpenAPI)}
	return []route{
		{pattern: "GET /graphql", serve: c.graphiql, open: true},
		{pattern: "GET /api/docs", serve: c.apiDocs, open: true},
	}
}
