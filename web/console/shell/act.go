package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/ui"
)

// linesShown is how many lines of an act are shown at first.
const linesShown = 6

// idInText finds ids within a text.
var idInText = regexp.MustCompile(`[a-z]{3,4}_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// actLine is one line about an act: the name of a value, if it has one, and the value.
type actLine struct {
	Name  string
	Parts []actPart
}

// actPart is a piece of a text, or an id within it.
type actPart struct{ Text, ID string }

// readActLine reads a line such as "maxRunning: 3 → 5".
func readActLine(line string) actLine {
	name, value, found := strings.Cut(line, ": ")
	if !found {
		name, value = "", line
	}
	return actLine{Name: spelledOut(name), Parts: actParts(ui.Upright(value))}
}

// spelledOut writes the name of a field in words: "max running" for maxRunning. Names of settings,
// such as DATABASE_URL, and of models stay as they are.
func spelledOut(name string) string {
	if strings.ContainsAny(name, "_ ") || name == strings.ToUpper(name) {
		return name
	}
	parts := strings.Split(name, ".")
	for i, part := range parts {
		if i > 0 || part != "" && unicode.IsLower(rune(part[0])) {
			parts[i] = strings.ToLower(Apart(part))
		}
	}
	return strings.Join(parts, ", ")
}

// actParts finds the ids within a text.
func actParts(value string) (parts []actPart) {
	for {
		at := idInText.FindStringIndex(value)
		if at == nil {
			return append(parts, actPart{Text: value})
		}
		parts = append(parts, actPart{Text: value[:at[0]], ID: value[at[0]:at[1]]})
		value = value[at[1]:]
	}
}

// actText shows a text with links for the ids in it.
func actText(parts []actPart) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		for _, part := range parts {
			if _, err := io.WriteString(w, templ.EscapeString(part.Text)); err != nil {
				return err
			}
			if part.ID == "" {
				continue
			}
			if err := ui.ID(part.ID, IDPath(ctx, part.ID)).Render(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// RawJSON is a payload as the API gives it, indented.
func RawJSON(payload json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, payload, "", "  ") != nil {
		return text.Printable(string(payload))
	}
	return ui.Upright(out.String())
}

// IDPath returns the address of the page about what an id names, or "" if there is none or the person
// may not open it.
func IDPath(ctx context.Context, id string) string {
	path, known := address.ByID[models.IDKind(id)]
	if !known {
		return ""
	}
	section, _, _ := strings.Cut(strings.TrimPrefix(path(id), "/"), "/")
	if slices.Contains(adminSections, "/"+section) && !May(ctx, access.RoleAdmin) {
		return ""
	}
	return path(id)
}
