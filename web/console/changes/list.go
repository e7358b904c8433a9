package changes

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

// changeList is the view of the feed of changes.
type changeList struct {
	// Values are the filter, as it stands in the address.
	Values url.Values
	Rows   []*query.Change
	Older  string
	Errors map[string]string
	Now    time.Time
}

// changeFields are the parts of the filter.
var changeFields = []string{"kind", "target", "since", "until"}

// changeList shows what changed in the installation, to all who see the console.
func (c *controller) changeList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := r.URL.Query()
	v := &changeList{Values: url.Values{}, Errors: map[string]string{}, Now: time.Now()}
	for _, name := range changeFields {
		if value := strings.TrimSpace(asked.Get(name)); value != "" {
			v.Values.Set(name, value)
		}
	}
	filter := query.ChangeFilter{Target: v.Values.Get("target")}
	if kind := query.ChangeKind(strings.ToUpper(v.Values.Get("kind"))); slices.Contains(query.ChangeKinds, kind) {
		filter.Kinds = []query.ChangeKind{kind}
	} else if kind != "" {
		v.Errors["kind"] = "There is no such kind of change."
	}
	shell.ReadTimes(v.Values, v.Errors, &filter.Since, &filter.Until)
	if len(v.Errors) > 0 {
		return shell.Render(w, r, http.StatusUnprocessableEntity, changeListPage(v))
	}
	found, err := c.Reads.History.Changes(r.Context(), p, filter, paging.Request{First: shell.ListSize, After: asked.Get("after")})
	if err != nil {
		return err
	}
	if v.Rows = found.Items; found.More {
		older := maps.Clone(v.Values)
		older.Set("after", found.End)
		v.Older = "/changes?" + older.Encode()
	}
	return shell.Render(w, r, http.StatusOK, changeListPage(v))
}

// with returns the address of the feed with another value of the filter.
func (v *changeList) with(name, value string) string {
	narrowed := maps.Clone(v.Values)
	narrowed.Set(name, value)
	return "/changes?" + narrowed.Encode()
}

// changePath returns the address of the page about what was changed, or "".
func changePath(ctx context.Context, change *query.Change) string {
	if address.ByID[models.IDKind(change.Target)] != nil {
		return shell.IDPath(ctx, change.Target)
	}
	switch change.Kind {
	case query.ChangeModel:
		return "/models"
	case query.ChangeQueue:
		return "/queues"
	case query.ChangeAlert:
		return "/alerts"
	case query.ChangeHalt, query.ChangeProcess:
		return "/system"
	}
	return ""
}
