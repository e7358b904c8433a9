package console

import (
	"net/http"

	"github.com/reelay/reelay/jobs"
)

// apiDocs serves the page about the REST API. Like the document, it needs no login.
func (c *console) apiDocs(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	if c.restAPI == nil {
		return errNoPage
	}
	return render(w, r, http.StatusOK, apiDocsPage(c.restAPI, c.origin(r)))
}
