package query

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
)

// Names are the names of accounts, keys, members, pools, workers, schedules and workflows, by id.
type Names map[string]string

// named puts the name before an id that has one: "acme (acc_…)".
func (n Names) named(value string) string {
	if name := n[value]; name != "" {
		return safe(name) + " (" + value + ")"
	}
	return value
}

// actNames returns the names of all that acts of the audit log mention by id.
func (r *History) actNames(ctx context.Context, acts []*access.AuditEntry) (Names, error) {
	ids := map[string]bool{}
	for _, act := range acts {
		ids[act.Target] = true
		readAct(act.Payload).each(func(value string) { ids[value] = true })
	}
	maps.DeleteFunc(ids, func(id string, _ bool) bool { return models.IDKind(id) == "" })
	names, err := models.NamesOf(ctx, r.db, slices.Sorted(maps.Keys(ids)))
	if err != nil {
		return nil, fmt.Errorf("read the names in the audit log: %w", err)
	}
	return names, nil
}

// ActLines returns what an act of the audit log says of itself, one value a line, such as
// "maxRunning: 3 → 5", for admins.
func ActLines(payload json.RawMessage, names Names) []string {
	act := readAct(payload)
	if act.all == nil && len(payload) > 0 && string(payload) != "null" {
		return []string{safe(string(payload))}
	}
	return act.lines(names, nil, "")
}

// actPayload is what an act of the audit log says of itself.
type actPayload struct {
	// all are its values but before and after, by name. The values of objects have the names of
	// both: "limits.maxRunning".
	all map[string]any
	// before and after are the values before and after a change, or nil.
	before, after map[string]any
}

func readAct(raw json.RawMessage) (p actPayload) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var all map[string]any
	if decoder.Decode(&all) != nil || all == nil {
		return actPayload{}
	}
	p.before, p.after = sideOf(all, "before"), sideOf(all, "after")
	delete(all, "before")
	delete(all, "after")
	p.all = flat("", all, map[string]any{})
	return p
}

// sideOf reads one side of a change: an object, or one value, which is then called value.
func sideOf(all map[string]any, side string) map[string]any {
	switch value := all[side].(type) {
	case nil:
		return nil
	case map[string]any:
		return flat("", value, map[string]any{})
	default:
		return map[string]any{"value": value}
	}
}

func flat(prefix string, from, into map[string]any) map[string]any {
	for name, value := range from {
		if inner, object := value.(map[string]any); object && len(inner) > 0 {
			flat(prefix+name+".", inner, into)
		} else {
			into[prefix+name] = value
		}
	}
	return into
}

// each calls visit with all texts among the values.
func (p actPayload) each(visit func(string)) {
	for _, values := range []map[string]any{p.all, p.before, p.after} {
		for _, value := range values {
			many, ok := value.([]any)
			if !ok {
				many = []any{value}
			}
			for _, one := range many {
				if s, ok := one.(string); ok {
					visit(s)
				}
			}
		}
	}
}

// lines returns what differs, one value a line, then the other values, but for those in the title.
// Hidden values change without being shown.
func (p actPayload) lines(names Names, hidden []string, title string) []string {
	lines := []string{}
	hides := func(name string) bool {
		first, _, _ := strings.Cut(name, ".")
		return slices.Contains(hidden, name) || slices.Contains(hidden, first)
	}
	changed := maps.Clone(p.after)
	for name := range p.before {
		if _, still := p.after[name]; p.after != nil && !still {
			changed[name] = nil
		}
	}
	told := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		is, was := inPlainText(p.after[name], names), inPlainText(p.before[name], names)
		line := ""
		switch {
		case is == was:
			continue
		case hides(name):
			first, _, _ := strings.Cut(name, ".")
			line = safe(first) + " changed"
		case p.before == nil:
			line = safe(name) + ": " + is
		default:
			line = safe(name) + ": " + was + " → " + is
		}
		if !told[line] {
			lines, told[line] = append(lines, line), true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.all)) {
		if value := inPlainText(p.all[name], names); value != nothing && !hides(name) && !strings.Contains(title, "{"+name+"}") &&
			!strings.Contains(title, "{for "+name+"}") {
			lines = append(lines, safe(name)+": "+value)
		}
	}
	return lines
}

// nothing stands for a value that is not there.
const nothing = "none"

// inPlainText returns a value of a payload as text.
func inPlainText(value any, names Names) string {
	switch v := value.(type) {
	case nil:
		return nothing
	case string:
		if v == "" {
			return nothing
		}
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return text.MomentInFull(at.UTC(), time.Now())
		}
		return names.named(safe(v))
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case json.Number:
		return v.String()
	case map[string]any:
		if len(v) == 0 {
			return nothing
		}
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = inPlainText(one, names)
		}
		if len(parts) == 0 {
			return nothing
		}
		return text.Clip(strings.Join(parts, ", "), maxValueRunes)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return safe(string(data))
}

// maxValueRunes bounds a value that is shown.
const maxValueRunes = 300

// safe returns a text that some person or program wrote, short and without control characters.
func safe(s string) string { return text.Clip(text.Printable(s), maxValueRunes) }
