package console

import (
	"net/http"

	"github.com/reelay/reelay/jobs"
)

// searchHelp explains the search language.
func (c *console) searchHelp(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return render(w, r, http.StatusOK, searchHelpPage())
}
