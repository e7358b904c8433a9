package output

import "strings"

// shortest is how many characters of an id are shown at least, after the kind: the UUID's time
// to the millisecond.
const shortest = 13

// shortIDs returns ids such as job_01937d3e-… without what is not needed to tell them apart.
// Other commands take them as they are.
func shortIDs(ids []string) []string {
	short := make([]string, len(ids))
	seen := map[string]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	length := shortest
	for ; length < 36; length++ {
		if unique(seen, length) {
			break
		}
	}
	for i, id := range ids {
		short[i] = cut(id, length)
	}
	return short
}

// unique reports whether ids still differ once they are cut.
func unique(ids map[string]bool, length int) bool {
	cuts := map[string]bool{}
	for id := range ids {
		c := cut(id, length)
		if cuts[c] {
			return false
		}
		cuts[c] = true
	}
	return true
}

// cut returns an id without what follows so many characters of its UUID.
func cut(id string, length int) string {
	kind, uuid, found := strings.Cut(id, "_")
	if !found || len(uuid) != 36 || len(uuid) <= length {
		return id
	}
	return kind + "_" + strings.TrimSuffix(uuid[:length], "-")
}
