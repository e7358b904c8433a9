package query

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
	{"class", "a failure class", "that failed with this class", "class:out_of_memory", true},
	{"account", "an account's name or id", "of this account", "account:acme", false},
	{"user", "a userId", "with this userId", "user:ann", true},
	{"worker", "a worker's id", "that had an attempt on this worker", "worker:wrk_…", false},
	{"age", "> or <, and s, m, h, d or w", "submitted longer ago, or less long ago", "age:<1h", false},
	{"waste", "> and GPU seconds", "that wasted more GPU seconds", "waste:>60", false},
	{"type", "a type", "whose type begins like this", "type:video", true},
}
