package catalogue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/capacity"
)

// Catalogue holds the current snapshot of the models. An operation reads the snapshot once,
// at its beginning, and hands it down, so that all of its decisions agree.
type Catalogue struct {
	current  atomic.Pointer[Snapshot]
	outbound *outbound.Policy
}

// Of returns a catalogue whose current snapshot is s.
func Of(s *Snapshot) *Catalogue {
	c := &Catalogue{}
	c.Replace(s)
	return c
}

// Current returns the current snapshot.
func (c *Catalogue) Current() *Snapshot { return c.current.Load() }

// Replace makes s the current snapshot. Operations that have begun keep theirs.
func (c *Catalogue) Replace(s *Snapshot) {
	s.guard(c.outbound)
	c.current.Store(s)
}

// Guard makes the models refuse the URLs that a policy does not allow, in this snapshot and in
// later ones. It is called before the catalogue is used.
func (c *Catalogue) Guard(policy outbound.Policy) {
	c.outbound = &policy
	c.Current().guard(c.outbound)
}

// guard gives a policy to the models that have none yet. Others are already shared.
func (s *Snapshot) guard(policy *outbound.Policy) {
	if policy == nil {
		return
	}
	for _, m := range s.models {
		if m.outbound == nil {
			m.outbound = policy
		}
	}
	for _, m := range s.past {
		if m.outbound == nil {
			m.outbound = policy
		}
	}
}

// Snapshot is the set of models and aliases that jobs may name, at one time. It is immutable,
// so that goroutines share it without a lock.
type Snapshot struct {
	// Change is the database's number of the change that the snapshot shows; 0 for one that
	// does not come from the database.
	Change int64

	models  []*Model // those that new jobs can name
	aliases []*Alias
	past    map[versionKey]*Model // all versions in the database
	removed []Removed             // the newest first
	hidden  map[string]bool       // the names that For left out
}

type versionKey struct {
	name    string
	version int
}

// Alias is a name that spreads jobs over models.
type Alias struct {
	Name    string
	Version int
	// Weights are the shares of models, and of other aliases. Weights of 0 take no jobs.
	Weights []Weight
}

// Weight is the share of one model or alias.
type Weight struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// New returns a snapshot of these models, without checking them.
func New(models ...*Model) *Snapshot { return &Snapshot{models: models} }

// Stored returns the snapshot that the rows of the database describe. Entries that before
// holds are not compiled again.
func Stored(rows []*capacity.CatalogueEntry, before *Snapshot) (*Snapshot, error) {
	s := &Snapshot{past: map[versionKey]*Model{}}
	newest := map[string]*capacity.CatalogueEntry{}
	for _, row := range rows {
		newest[row.Name] = row // the versions of an entry follow each other
		s.Change = max(s.Change, row.Change)
		if row.IsAlias {
			if row.Current {
				alias := &Alias{Name: row.Name, Version: row.Version}
				if err := json.Unmarshal(row.Entry, &alias.Weights); err != nil {
					return nil, fmt.Errorf("read version %d of the alias %s: %w", row.Version, row.Name, err)
				}
				s.aliases = append(s.aliases, alias)
			}
			continue
		}
		model, err := before.stored(row)
		if err != nil {
			return nil, fmt.Errorf("read version %d of the model %s: %w", row.Version, row.Name, err)
		}
		s.past[versionKey{row.Name, row.Version}] = model
		if row.Current {
			s.models = append(s.models, model)
		}
	}
	for _, row := range newest {
		if !row.Current {
			s.removed = append(s.removed, Removed{row.Name, row.IsAlias, row.Version, row.Origin, row.RemovedAt, row.RemovedBy, row.Entry})
		}
	}
	slices.SortFunc(s.removed, func(a, b Removed) int {
		return cmp.Or(b.RemovedAt.Compare(a.RemovedAt), cmp.Compare(a.Name, b.Name))
	})
	return s, nil
}

// Removed is a model or an alias that was removed, with its newest version.
type Removed struct {
	Name      string
	Alias     bool
	Version   int
	Origin    capacity.CatalogueOrigin
	RemovedAt time.Time
	RemovedBy string

	entry json.RawMessage
}

// Removals lists what was removed, the newest first.
func (s *Snapshot) Removals() []Removed { return s.removed }

// stored returns the model of a row.
func (s *Snapshot) stored(row *capacity.CatalogueEntry) (*Model, error) {
	if known := s.past[versionKey{row.Name, row.Version}]; known != nil && known.Origin == row.Origin && known.RemovedAt.Equal(row.RemovedAt) {
		return known, nil
	}
	m := &Model{Version: row.Version, Origin: row.Origin, CreatedAt: row.CreatedAt, RemovedAt: row.RemovedAt, RemovedBy: row.RemovedBy}
	if err := json.Unmarshal(row.Entry, m); err != nil {
		return nil, err
	}
	return m, m.compile()
}

// Models lists the models in the order in which they were first added. What a caller appends goes to a list of its own.
func (s *Snapshot) Models() []*Model { return slices.Clip(s.models) }

// Aliases lists the aliases in the order in which they were first added.
func (s *Snapshot) Aliases() []*Alias { return slices.Clip(s.aliases) }

// Names lists the names that a job may use: of models, then of aliases.
func (s *Snapshot) Names() []string {
	var names []string
	for _, m := range s.models {
		names = append(names, m.Name)
	}
	for _, a := range s.aliases {
		names = append(names, a.Name)
	}
	return names
}

// Model returns the current version of the model of that name, or INVALID_INPUT.
func (s *Snapshot) Model(name string) (*Model, error) {
	if m := s.model(name); m != nil {
		return m, nil
	}
	if s.alias(name) != nil {
		return nil, apierror.Invalid("model", "%s is an alias: name a model.", text.Clip(name, MaxName))
	}
	near := cmp.Or(text.DidYouMean(name, s.Names()), ".")
	return nil, apierror.Invalid("model", "There is no model of that name%s The names are: %s.", near, strings.Join(s.Names(), ", "))
}

func (s *Snapshot) model(name string) *Model {
	if i := slices.IndexFunc(s.models, func(m *Model) bool { return m.Name == name }); i >= 0 {
		return s.models[i]
	}
	return nil
}

func (s *Snapshot) alias(name string) *Alias {
	if i := slices.IndexFunc(s.aliases, func(a *Alias) bool { return a.Name == name }); i >= 0 {
		return s.aliases[i]
	}
	return nil
}

// At returns a version of a model, which may have been replaced or removed since. If the
// version is unknown, At returns the current one, and nil if there is none.
func (s *Snapshot) At(name string, version int) *Model {
	if m := s.past[versionKey{name, version}]; m != nil {
		return m
	}
	return s.model(name)
}

// Find returns a version of a model, or the current one if version is 0. It returns nil if
// there is none.
func (s *Snapshot) Find(name string, version int) *Model {
	if m := s.model(name); m != nil && (version == 0 || version == m.Version) {
		return m
	}
	return s.past[versionKey{name, version}]
}

// Candidates returns the models that a job of this name can get: the model itself, or the
// models of an alias, each with its share of the jobs. It returns INVALID_INPUT for an unknown
// name.
func (s *Snapshot) Candidates(name string) ([]Candidate, error) {
	if a := s.alias(name); a != nil {
		return whole(s.spread(a, map[string][]Candidate{})), nil
	}
	m, err := s.Model(name)
	return []Candidate{{m, 1}}, err
}

// Candidate is a model that a job can get, and the probability that it does.
type Candidate struct {
	Model *Model
	Share float64
}

// spread returns the models of an alias, each once. Known are the results for aliases that were
// met before: many aliases may name the same one. Aliases of aliases have no cycle: an entry
// that made one was refused.
func (s *Snapshot) spread(a *Alias, known map[string][]Candidate) []Candidate {
	if found, met := known[a.Name]; met {
		return found
	}
	total := 0.0
	for _, w := range a.Weights {
		total += w.Weight
	}
	var all []Candidate
	add := func(m *Model, share float64) {
		if i := slices.IndexFunc(all, func(c Candidate) bool { return c.Model == m }); i >= 0 {
			all[i].Share += share
		} else if share > 0 {
			all = append(all, Candidate{m, share})
		}
	}
	for _, w := range a.Weights {
		if inner := s.alias(w.Name); inner != nil {
			for _, c := range s.spread(inner, known) {
				add(c.Model, c.Share*w.Weight/total)
			}
		} else if m := s.model(w.Name); m != nil {
			add(m, w.Weight/total)
		}
	}
	known[a.Name] = all
	return all
}

// Choose picks one of the candidates at random, by their shares.
func Choose(all []Candidate) *Model {
	at := rand.Float64()
	for _, c := range all {
		if at -= c.Share; at < 0 {
			return c.Model
		}
	}
	return all[len(all)-1].Model // the shares were rounded
}

// ValidNames returns INVALID_INPUT unless these could be names of models, and there are at most
// MaxWorkerModels. A worker may name models that do not exist: it gets no jobs of them until they do.
func ValidNames(field string, names []string) error {
	if len(names) > MaxWorkerModels {
		return apierror.Invalid(field, "%s may name %d models.", field, MaxWorkerModels)
	}
	for _, name := range names {
		if !validName.MatchString(name) {
			return apierror.Invalid(field, "%s names %q: a model's name has 1 to %d letters, digits, dots, hyphens and underscores.", field,
				text.Clip(name, MaxName), MaxName)
		}
	}
	return nil
}

// Known returns INVALID_INPUT unless each name is a model's, and there are at most
// MaxWorkerModels.
func (s *Snapshot) Known(field string, names []string) error {
	if len(names) > MaxWorkerModels {
		return apierror.Invalid(field, "%s may name %d models.", field, MaxWorkerModels)
	}
	for _, name := range names {
		if _, err := s.Model(name); err != nil {
			return apierror.Invalid(field, "%s", err)
		}
	}
	return nil
}

// CheckAlias returns CONFLICT if an alias names what does not exist, or leads back to itself. It returns nil for a model.
func (s *Snapshot) CheckAlias(name string) error {
	a := s.alias(name)
	if a == nil {
		return nil
	}
	for _, w := range a.Weights {
		if s.model(w.Name) == nil && s.alias(w.Name) == nil {
			return apierror.Conflict("The alias %s names %s, which is not in the catalogue: restore that first.", name, w.Name)
		}
	}
	if path := s.cycle(name, nil, map[string]bool{}); path != nil {
		return apierror.Conflict("The aliases would form a cycle: %s.", strings.Join(path, " → "))
	}
	return nil
}

// cycle returns a path by which an alias leads back to itself or to another cycle, or nil.
// Clear are the names that are known to lead to none; cycle adds to them.
func (s *Snapshot) cycle(name string, path []string, clear map[string]bool) []string {
	if clear[name] {
		return nil
	}
	if path = append(slices.Clip(path), name); slices.Index(path, name) < len(path)-1 {
		return path
	}
	if a := s.alias(name); a != nil {
		for _, w := range a.Weights {
			if found := s.cycle(w.Name, path, clear); found != nil {
				return found
			}
		}
	}
	clear[name] = true
	return nil
}
