package shell

import (
	"net/http"
	"strings"

	"github.com/reelay/reelay/jobs"
)

// group is a part of the navigation.
type group struct {
	name     string
	sections []section
}

// section is a page of the navigation.
type section struct {
	name, path string
	// keys are pressed one after the other to open it.
	keys string
	// one names one of the things that it lists, for links back to it.
	one string
}

// navigation lists all sections.
var navigation = []group{
	{"", []section{{"Overview", "/overview", "g o", ""}}},
	{"Jobs", []section{
		{"Jobs", "/jobs", "g j", "the job"},
		{"Gallery", "/gallery", "g y", ""},
		{"Takes", "/takes", "g t", "the takes"},
		{"Dead letters", "/dead-letters", "g d", "the dead letter"},
		{"Bulk operations", "/bulk", "g b", "the operation"},
		{"Schedules", "/schedules", "g r", "the schedule"},
		{"Workflows", "/workflows", "g v", "the workflow"},
	}},
	{"Fleet", []section{
		{"Queues", "/queues", "g q", "the queue"},
		{"Pools", "/pools", "g p", "the pool"},
		{"Workers", "/workers", "g w", "the worker"},
		{"Heat map", "/heatmap", "g h", ""},
		{"Models", "/models", "g m", "the model"},
		{"Costs", "/costs", "g x", ""},
	}},
	{"Operate", []section{
		{"Alerts", "/alerts", "g a", "the alert"},
		{"Webhooks", "/webhooks", "g e", "the endpoint"},
		{"Changes", "/changes", "g i", ""},
		{"Doctor", "/doctor", "g f", ""},
		{"System", "/system", "g s", ""},
		{"asynq", "/asynqmon", "g z", ""},
	}},
	{"Access", []section{
		{"Accounts", "/accounts", "g c", "the account"},
		{"Members", "/members", "g u", "the member"},
		{"Keys", "/keys", "g k", "the key"},
		{"Audit", "/audit", "g l", ""},
	}},
}

// sectionAt returns the section to which an address belongs: Jobs for an address of none.
func sectionAt(path string) section {
	first := section{"Jobs", "/jobs", "g j", "the job"}
	for _, g := range navigation {
		for _, s := range g.sections {
			if path == s.path || strings.HasPrefix(path, s.path+"/") || strings.HasPrefix(path, s.path+"?") {
				return s
			}
		}
	}
	return first
}

// sectionOf returns the address of the list to which a page belongs.
func sectionOf(path string) string { return sectionAt(path).path }

// backLabel names the page to return to.
func backLabel(path string) string {
	s := sectionAt(path)
	rest, ok := strings.CutPrefix(path, s.path)
	switch {
	case strings.HasSuffix(rest, "/new"), strings.HasSuffix(rest, "/edit"), strings.HasSuffix(rest, "/apply"):
		return "Back to the form"
	case ok && s.one != "" && strings.Trim(rest, "/") != "" && !strings.HasPrefix(rest, "?"):
		return "Back to " + s.one
	case s.name == strings.ToLower(s.name):
		return "Back to " + s.name
	}
	return "Back to " + strings.ToLower(s.name[:1]) + s.name[1:]
}

func (c *Shell) home(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	http.Redirect(w, r, Home(), http.StatusSeeOther)
	return nil
}

// Home is the address of the first page of the navigation.
func Home() string { return navigation[0].sections[0].path }
