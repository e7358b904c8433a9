package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/models"
)

// auditList is the view of the audit log.
type auditList struct {
	// Values are the filter, as it stands in the address.
	Values url.Values
	Rows   []*models.AuditEntry
	Older  string
	Errors map[string]string
	Now    time.Time
}

// auditFields are the parts of the filter.
var auditFields = []string{"actor", "action", "target", "since", "until"}

func (c *console) auditList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := r.URL.Query()
	v := &auditList{Values: url.Values{}, Errors: map[string]string{}, Now: time.Now()}
	for _, name := range auditFields {
		if value := strings.TrimSpace(asked.Get(name)); value != "" {
			v.Values.Set(name, value)
		}
	}
	filter := models.AuditFilter{Actor: v.Values.Get("actor"), Action: v.Values.Get("action"), Target: v.Values.Get("target")}
	for name, to := range map[string]*time.Time{"since": &filter.Since, "until": &filter.Until} {
		if value := v.Values.Get(name); value != "" {
			var err error
			if *to, err = readAuditTime(value); err != nil {
				v.Errors[name] = "This must be a time in UTC, such as 2026-11-26T03:00."
			}
		}
	}
	if len(v.Errors) > 0 {
		return render(w, r, http.StatusUnprocessableEntity, auditListPage(v))
	}
	found, err := c.Reader.SearchAudit(r.Context(), p, filter, paging.Request{First: accessListSize, After: asked.Get("after")})
	if err != nil {
		return err
	}
	if v.Rows = found.Items; found.More {
		older := maps.Clone(v.Values)
		older.Set("after", found.End)
		v.Older = "/audit?" + older.Encode()
	}
	return render(w, r, http.StatusOK, auditListPage(v))
}

// readAuditTime reads a time in UTC, as browsers send it.
func readAuditTime(value string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, nil
		}
	}
	return time.Time{}, apierror.Invalid("since", "This is no time.")
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

// targetPath returns the address of the page of an object, or "".
func targetPath(target string) string {
	switch models.IDKind(target) {
	case "job":
		return "/jobs/" + target
	case "pol":
		return "/pools/" + target
	case "mem":
		return "/members/" + target
	case "acc":
		return "/accounts/" + target + "/edit"
	}
	return ""
}

// payloadLines returns the payload of an act, one value a line: "maxRunning: 3 → 5".
func payloadLines(payload json.RawMessage) []string {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var all map[string]any
	if decoder.Decode(&all) != nil {
		return []string{text.Clip(text.Printable(string(payload)), 2000)}
	}
	before, _ := all["before"].(map[string]any)
	after, _ := all["after"].(map[string]any)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		is := inWords(after[name])
		if was, changed := before[name]; changed && inWords(was) != is {
			lines = append(lines, name+": "+inWords(was)+" → "+is)
		} else if before == nil {
			lines = append(lines, name+": "+is)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if value := all[name]; name != "after" && name != "before" {
			lines = append(lines, name+": "+inWords(value))
		}
	}
	return lines
}

// inWords shows one value of a payload. Control characters are made visible.
func inWords(value any) string {
	if s, ok := value.(string); ok {
		return text.Clip(text.Printable(s), 500)
	}
	if value == nil {
		return "none"
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return text.Clip(text.Printable(string(data)), 500)
}
