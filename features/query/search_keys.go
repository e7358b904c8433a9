package query

import "strings"

// SearchKey is a key of the search language.
type SearchKey struct {
	// Name is the key. What is the name of its values for people.
	Name, What string
	// Help says which jobs a term with the key matches.
	Help string
	// Example is a term.
	Example string
	// Many reports whether a term may list several values, and whether a minus may precede it.
	Many bool
}

// SearchKeys lists all keys, in the order in which people are shown them.
var SearchKeys = []SearchKey{
	{"status", "a status", "with this status", "status:failed,cancelled", true},
	{"model", "a model", "whose model's name begins like this", "model:ltx", true},
	{"tier", "a tier", "of this tier", "tier:free,batch", true},
	{"lane", "a tier", "that queue in this lane", "lane:critical", true},
	{"class", "a failure class", "that failed with this class", "class:out_of_memory", true},
	{"account", "an account's name or id", "of this account", "account:acme", false},
	{"user", "a userId", "with this userId", "user:ann", true},
	{"worker", "a worker's id", "that had an attempt on this worker", "worker:wrk_…", false},
	{"pool", "a pool's name", "that had an attempt on a worker of this pool", "pool:h200-spot", false},
	{"zone", "a zone", "that had an attempt in this zone", "zone:europe-west4-a", false},
	{"meta", "a field = its value", "whose metadata has this field with this value", "meta:campaign=autumn", false},
	{"bulk", "a bulk operation's id", "that are in this bulk operation", "bulk:bulk_…", false},
	{"schedule", "a schedule's id", "that this schedule submitted", "schedule:sch_…", false},
	{"workflow", "a workflow's id", "that are nodes of this workflow", "workflow:wfl_…", false},
	{"age", "> or <, and s, m, h, d or w", "submitted longer ago, or less long ago", "age:<1h", false},
	{"checkpoint", "> or <, and s, m, h, d or w", "whose newest checkpoint is older, or younger", "checkpoint:>10m", false},
	{"waste", "> and GPU seconds", "that wasted more GPU seconds", "waste:>60", false},
	{"type", "a type", "whose type begins like this", "type:video", true},
}

// keyNames lists the keys for messages: all, or those that can have a minus.
func keyNames(many bool) string {
	var names []string
	for _, key := range SearchKeys {
		if key.Many || !many {
			names = append(names, key.Name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
