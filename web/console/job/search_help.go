package job

import (
	"encoding/json"
	"net/http"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/shell"
)

// searchHelp explains the search language.
func (c *controller) searchHelp(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, searchHelpPage())
}

// searchSuggest completes the term in the address for the search field, as JSON.
func (c *controller) searchSuggest(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	term := r.URL.Query().Get("term")
	some := []query.Suggestion{}
	if len(term) <= maxTerm {
		var err error
		if some, err = c.Reads.Jobs.Suggest(r.Context(), p, term); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(some)
}

// maxTerm bounds what is completed, in bytes.
const maxTerm = 200
