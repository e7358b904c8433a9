package catalogue

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/jsondiff"
	"github.com/reelay/reelay/models/capacity"
)

// ChangeKind is what applying an entry does.
type ChangeKind string

const (
	Added     ChangeKind = "ADDED"
	Changed   ChangeKind = "CHANGED"
	Unchanged ChangeKind = "UNCHANGED"
)

// Change is what applying one entry of a file does.
type Change struct {
	Kind  ChangeKind
	Name  string
	Alias bool
	// Version is the entry's version after the change.
	Version int
	// Differences lists what differs from the current version. It is empty unless Kind is
	// Changed.
	Differences []jsondiff.Difference
	// Row is the version to write; nil if Kind is Unchanged.
	Row *capacity.CatalogueEntry
}

// Plan returns what applying the entries to the rows of the database does, and the snapshot
// afterwards. It returns an error like Parse's if the result would be invalid: an alias that
// names no model, a cycle of aliases, or a name of both a model and an alias.
func (s *Source) Plan(rows []*capacity.CatalogueEntry, origin capacity.CatalogueOrigin, by string, before *Snapshot) ([]*Change, *Snapshot,
	error) {
	var changes []*Change
	for i, m := range s.Models {
		s.refuseOtherKind(fmt.Sprintf("$.models[%d].name", i), rows, m.Name, false)
		entry, err := json.Marshal(m)
		if err != nil {
			return nil, nil, fmt.Errorf("encode the model %s: %w", m.Name, err)
		}
		changes = append(changes, plan(rows, m.Name, false, entry))
	}
	for i, a := range s.Aliases {
		s.refuseOtherKind(fmt.Sprintf("$.aliases[%d].name", i), rows, a.Name, true)
		entry, err := json.Marshal(a.Weights)
		if err != nil {
			return nil, nil, fmt.Errorf("encode the alias %s: %w", a.Name, err)
		}
		changes = append(changes, plan(rows, a.Name, true, entry))
	}
	if err := s.Err(); err != nil {
		return nil, nil, err
	}
	after := slices.Clone(rows)
	for _, c := range changes {
		if c.Row == nil {
			continue
		}
		c.Row.Origin, c.Row.CreatedBy = origin, by
		after = replace(after, c.Row)
	}
	next, err := Stored(after, before)
	if err != nil {
		return nil, nil, err
	}
	s.checkAliases(next)
	return changes, next, s.Err()
}

// refuseOtherKind records a problem if the name is that of a model and the entry is an alias,
// or the reverse.
func (s *Source) refuseOtherKind(place string, rows []*capacity.CatalogueEntry, name string, alias bool) {
	if slices.ContainsFunc(rows, func(r *capacity.CatalogueEntry) bool { return r.Name == name && r.IsAlias != alias }) {
		kinds := map[bool]string{true: "an alias", false: "a model"}
		s.problem(place, "%s is the name of %s, so it cannot be %s", name, kinds[!alias], kinds[alias])
	}
}

// replace returns the rows with row as the current one of its name.
func replace(rows []*capacity.CatalogueEntry, row *capacity.CatalogueEntry) []*capacity.CatalogueEntry {
	last := len(rows)
	for i, r := range rows {
		if r.Name == row.Name {
			old := *r
			old.Current, rows[i], last = false, &old, i+1
		}
	}
	return slices.Insert(rows, last, row)
}

// plan compares an entry with the current version of its name.
func plan(rows []*capacity.CatalogueEntry, name string, alias bool, entry json.RawMessage) *Change {
	c := &Change{Kind: Added, Name: name, Alias: alias}
	var current *capacity.CatalogueEntry
	for _, r := range rows {
		if r.Name == name {
			c.Version = max(c.Version, r.Version)
			if r.Current {
				current = r
			}
		}
	}
	if current != nil {
		c.Kind = Changed
		c.Differences = jsondiff.Compare(current.Entry, entry)
		if len(c.Differences) == 0 {
			c.Kind, c.Version = Unchanged, current.Version
			return c
		}
	}
	c.Version++
	c.Row = &capacity.CatalogueEntry{Name: name, Version: c.Version, IsAlias: alias, Entry: entry, Current: true}
	return c
}
