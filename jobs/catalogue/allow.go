package catalogue

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/reelay/reelay/models"
)

// allows reports whether jobs of an account may have the model.
func (m *Model) allows(account models.AccountID) bool {
	return len(m.Accounts) == 0 || slices.Contains(m.Accounts, account)
}

// For returns what an account sees: without the models that are limited to others, also those that were
// removed, and without aliases that lead to these alone. "" stands for operators, who see all.
func (s *Snapshot) For(account models.AccountID) *Snapshot {
	other := func(m *Model) bool { return m != nil && !m.allows(account) }
	removed := func(r Removed) bool { return other(s.past[versionKey{r.Name, r.Version}]) }
	if account == "" || !slices.ContainsFunc(s.models, other) && !slices.ContainsFunc(s.removed, removed) {
		return s
	}
	hidden := map[string]bool{}
	for _, m := range s.models {
		hidden[m.Name] = other(m)
	}
	for _, r := range s.removed {
		hidden[r.Name] = removed(r)
	}
	seen := *s
	seen.hidden = hidden
	seen.models = slices.DeleteFunc(slices.Clone(s.models), func(m *Model) bool { return hidden[m.Name] })
	seen.past = maps.Clone(s.past)
	maps.DeleteFunc(seen.past, func(key versionKey, _ *Model) bool { return hidden[key.name] })
	leads := func(a *Alias) bool { return len(seen.spread(a, map[string][]Candidate{})) > 0 }
	seen.aliases = slices.DeleteFunc(slices.Clone(s.aliases), func(a *Alias) bool { return !leads(a) })
	for _, a := range s.aliases {
		hidden[a.Name] = seen.alias(a.Name) == nil
	}
	for found := true; found; { // an alias may name another removed one
		found = false
		for _, r := range s.removed {
			if !hidden[r.Name] && r.namesOnly(hidden) {
				hidden[r.Name], found = true, true
			}
		}
	}
	seen.removed = slices.DeleteFunc(slices.Clone(s.removed), func(r Removed) bool { return hidden[r.Name] })
	return &seen
}

// FallbackOf returns the names in the fallback of a model, without those of models that the account does not see.
// A name can be of no model.
func (s *Snapshot) FallbackOf(m *Model) []string {
	return slices.DeleteFunc(slices.Clone(m.Fallback), func(name string) bool { return s.hidden[name] })
}

// namesOnly reports whether it is an alias all of whose models are hidden.
func (r Removed) namesOnly(hidden map[string]bool) bool {
	var weights []Weight
	if !r.Alias || json.Unmarshal(r.entry, &weights) != nil {
		return false
	}
	return !slices.ContainsFunc(weights, func(w Weight) bool { return !hidden[w.Name] })
}

// whole scales shares so that they sum to 1: an alias may lead to models that the account does not
// see.
func whole(all []Candidate) []Candidate {
	sum := 0.0
	for _, c := range all {
		sum += c.Share
	}
	for i := range all {
		all[i].Share /= sum
	}
	return all
}
