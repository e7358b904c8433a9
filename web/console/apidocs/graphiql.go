package apidocs

import (
	"net/http"
	"strings"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/static"
)

// graphiqlPolicy is the policy for a page without videos, whose style sheet contains its
// fonts and icons.
var graphiqlPolicy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "font-src data:", "img-src 'self' data:",
	"form-action 'none'", "frame-ancestors 'none'", "base-uri 'none'",
}, "; ")

// graphiql serves a page to write queries. It needs no login: it shows only responses of
// the API to the entered key.
func (c *controller) graphiql(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	w.Header().Set("Content-Security-Policy", graphiqlPolicy)
	if static.Asset("vendor/graphiql.js") == "" || static.Asset("vendor/graphiql.css") == "" {
		return shell.Render(w, r, http.StatusOK, graphiqlMissing())
	}
	return shell.Render(w, r, http.StatusOK, graphiqlPage())
}

// AsksForGraphiQL distinguishes a browser that opens the address of the GraphQL API from
// a client that sends a query with GET.
func AsksForGraphiQL(r *http.Request) bool {
	query := r.URL.Query()
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == "" &&
		strings.Contains(r.Header.Get("Accept"), "text/html") && !query.Has("query") && !query.Has("extensions")
}
