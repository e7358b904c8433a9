package access

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
)

// auditList is the view of the audit log.
type auditList struct {
	// Values are the filter, as it stands in the address.
	Values url.Values
	Rows   []*query.Act
	Older  string
	Errors map[string]string
	Now    time.Time
}

// auditFields are the parts of the filter.
var auditFields = []string{"actor", "action", "target", "since", "until"}

func (c *controller) auditList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := r.URL.Query()
	v := &auditList{Values: url.Values{}, Errors: map[string]string{}, Now: time.Now()}
	for _, name := range auditFields {
		if value := strings.TrimSpace(asked.Get(name)); value != "" {
			v.Values.Set(name, value)
		}
	}
	filter := access.AuditFilter{Actor: v.Values.Get("actor"), Action: v.Values.Get("action"), Target: v.Values.Get("target")}
	shell.ReadTimes(v.Values, v.Errors, &filter.Since, &filter.Until)
	if len(v.Errors) > 0 {
		return shell.Render(w, r, http.StatusUnprocessableEntity, auditListPage(v))
	}
	found, err := c.Reads.History.Audit(r.Context(), p, filter, paging.Request{First: shell.ListSize, After: asked.Get("after")})
	if err != nil {
		return err
	}
	if v.Rows = found.Items; found.More {
		older := maps.Clone(v.Values)
		older.Set("after", found.End)
		v.Older = "/audit?" + older.Encode()
	}
	return shell.Render(w, r, http.StatusOK, auditListPage(v))
}

// with returns the address of the log with another value of the filter.
func (v *auditList) with(name, value string) string {
	narrowed := maps.Clone(v.Values)
	if narrowed == nil {
		narrowed = url.Values{}
	}
	narrowed.Set(name, value)
	return "/audit?" + narrowed.Encode()
}
