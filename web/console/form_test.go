package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// shownForm is a form of a page, with what a browser would send.
type shownForm struct {
	method, action string
	fields         url.Values
	buttons        []map[string]string // their attributes
}

func attributes(node *html.Node) map[string]string {
	found := map[string]string{}
	for _, a := range node.Attr {
		found[a.Key] = a.Val
	}
	return found
}

// formsOf reads the forms of a page.
func formsOf(t *testing.T, page string) (forms []*shownForm) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	byID := map[string]*shownForm{}
	var walk func(node *html.Node, in *shownForm)
	walk = func(node *html.Node, in *shownForm) {
		if node.Type == html.ElementNode {
			a := attributes(node)
			if node.Data == "form" {
				in = &shownForm{method: strings.ToUpper(a["method"]), action: a["action"], fields: url.Values{}}
				forms = append(forms, in)
				byID[a["id"]] = in
			}
			to := in
			if a["form"] != "" {
				to = byID[a["form"]]
			}
			if to != nil {
				to.add(node, a)
			}
		}
		for child := range node.ChildNodes() {
			walk(child, in)
		}
	}
	walk(root, nil)
	return forms
}

// add takes a field or a button of the form.
func (f *shownForm) add(node *html.Node, a map[string]string) {
	text := func() (text string) {
		for child := range node.ChildNodes() {
			text += child.Data
		}
		return text
	}
	switch {
	case node.Data == "button" && a["type"] != "button":
		f.buttons = append(f.buttons, a)
	case node.Data == "textarea":
		f.fields.Add(a["name"], text())
	case node.Data == "option":
		if _, selected := a["selected"]; selected || !f.fields.Has(attributes(node.Parent)["name"]) {
			f.fields.Set(attributes(node.Parent)["name"], a["value"])
		}
	case node.Data == "input" && (a["type"] == "checkbox" || a["type"] == "radio"):
		if _, checked := a["checked"]; checked {
			f.fields.Add(a["name"], a["value"])
		}
	case node.Data == "input":
		f.fields.Add(a["name"], a["value"])
	}
}

// main is the button with which a person sends the form.
func (f *shownForm) main() map[string]string {
	at := slices.IndexFunc(f.buttons, func(b map[string]string) bool { return strings.Contains(b["class"], "primary") })
	if at < 0 {
		at = 0
	}
	return f.buttons[at]
}

// typed are values for the fields that a person must fill.
var typed = url.Values{
	"name": {"twice"}, "email": {"twice@example.com"}, "url": {"http://127.0.0.1:1024/twice"}, "reason": {"twice"}, "minutes": {"30"},
	"prompt":  {"a fox"},
	"newTier": {"BATCH"}, "newPriority": {"7"}, "role": {"VIEWER"}, "provider": {"static"}, "region": {"here"}, "gpuType": {"any"},
	"models": {"testcard"}, "maxWorkers": {"1"},
}

// ownForms end the session that sends them.
var ownForms = []string{"/logout", "/me/logout", "/me/password"}

// countedTables are the tables to which a form must add nothing when it is sent again.
var countedTables = []string{
	"jobs", "job_runs", "bulk_operations", "members", "invitations", "api_keys", "webhook_endpoints", "webhook_deliveries", "accounts",
	"pools", "saved_views", "alert_silences", "queue_pauses", "halts", "quarantines", "catalogue_entries", "schedules", "schedule_slots",
	"workflows", "workflow_nodes", "budgets",
}

// posted are the forms of a page that change something and leave the session.
func (b *browser) posted(t *testing.T, path string) []*shownForm {
	t.Helper()
	return slices.DeleteFunc(formsOf(t, b.get(t, path).Body), func(f *shownForm) bool {
		return f.method != http.MethodPost || slices.Contains(ownForms, f.action) || strings.HasPrefix(f.action, "/join/")
	})
}

// fill fills a form as a person would, and chooses its main button.
func (f *shownForm) fill() {
	for name, values := range f.fields {
		f.fields.Set(name, strings.ReplaceAll(values[0], markup, ""))
		if typed.Has(name) && f.fields.Get(name) == "" {
			f.fields[name] = typed[name]
		}
	}
	if f.action == "/pools/new" {
		f.fields["models"], f.fields["provider"] = []string{"testcard"}, []string{"static"}
	}
	if main := f.main(); main["name"] != "" {
		f.fields.Set(main["name"], main["value"])
	}
}

// Every form works without scripts, and does nothing more when it is sent twice, as by a double
// click or after the back button. A viewer can send none.
func TestEveryForm(t *testing.T) {
	t.Parallel()

	b, pages := busy(t)
	for _, seed := range morePages {
		maps.Copy(pages, seed(t, b))
	}
	mux := http.NewServeMux()
	for _, r := range routes(shell.New(shell.Config{}), Config{}) {
		mux.Handle(r.Pattern, http.NotFoundHandler())
	}
	routeOf := func(f *shownForm) (pattern string) {
		address, err := url.Parse(f.action)
		require.NoError(t, err)
		_, pattern = mux.Handler(&http.Request{Method: f.method, URL: address})
		return pattern
	}

	logInAs(t, b, access.RoleViewer)
	for name, path := range pages {
		for _, f := range b.posted(t, path) {
			for _, button := range f.buttons {
				if strings.HasPrefix(f.action, "/approve/") {
					continue // who has the link may answer
				}
				require.Contains(t, button, "disabled", "%s: a viewer cannot send %s", name, f.action)
				if f.action != "/doctor" { // this console has no doctor
					require.Contains(t, button["title"], "Your role is viewer.", "%s: %s", name, f.action)
				}
			}
		}
	}

	logInAs(t, b, access.RoleAdmin)
	forms := map[string]*shownForm{} // one of each route
	for _, path := range slices.Sorted(maps.Values(pages)) {
		for _, f := range b.posted(t, path) {
			if pattern := routeOf(f); forms[pattern] == nil {
				forms[pattern] = f
			}
		}
	}
	require.Greater(t, len(forms), 40)
	did := 0
	for _, pattern := range slices.Sorted(maps.Keys(forms)) {
		f := forms[pattern]
		f.fill()
		first := b.post(t, f.action, f.fields)
		require.Less(t, first.Status, 500, pattern)
		if first.Status == http.StatusSeeOther && pattern != "POST /doctor" && pattern != "POST /theme" {
			require.Contains(t, first.Header.Get("Set-Cookie"), "-flash=", "%s leads to a page that says what was done", pattern)
		}
		if first.Status < 400 {
			did++
		} else {
			t.Logf("%s: %d", pattern, first.Status)
		}
		before := map[string]int{}
		for _, table := range countedTables {
			before[table] = b.Count(t, table)
		}
		again := b.post(t, f.action, f.fields)
		require.Less(t, again.Status, 500, "%s again", pattern)
		for table, n := range before {
			require.Equal(t, n, b.Count(t, table), "%s again: rows of %s", pattern, table)
		}
	}
	require.Greater(t, did, 30, "most forms do something")
}
