package catalogue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/yamlfile"
)

const (
	// MaxSource is how many bytes a file of entries may have.
	MaxSource = yamlfile.MaxBytes
	// maxEntries is how many models and aliases one file may have.
	maxEntries = 200
	// MaxName is the maximum length of a name.
	MaxName = 100
	maxText = 1000
)

// Source is a file of entries, checked as far as it can be without the entries that exist.
type Source struct {
	Models  []*Model
	Aliases []*Alias

	file *yamlfile.File
}

type sourceModel struct {
	Model    `yaml:",inline"`
	Params   yamlfile.Document `yaml:"params"`
	Settings yamlfile.Document `yaml:"settings"`
	Quality  yamlfile.Document `yaml:"quality"`
}

type sourceAlias struct {
	Name   string             `yaml:"name"`
	Models map[string]float64 `yaml:"models"`
}

// Parse reads a file of entries. It returns an error that lists the problems, each with the
// file's name, the line, and the reason.
func Parse(file string, data []byte) (*Source, error) {
	var found struct {
		Models  []sourceModel `yaml:"models"`
		Aliases []sourceAlias `yaml:"aliases"`
	}
	read, err := yamlfile.Read(file, "models or aliases", data, &found)
	if err != nil {
		return nil, err
	}
	if n := len(found.Models) + len(found.Aliases); n == 0 || n > maxEntries {
		return nil, fmt.Errorf("%s: the file must have 1 to %d models and aliases; it has %d", file, maxEntries, n)
	}
	s := &Source{file: read}
	for i := range found.Models {
		m := found.Models[i].Model
		m.Schema, m.Settings, m.Quality = raw(found.Models[i].Params), raw(found.Models[i].Settings), raw(found.Models[i].Quality)
		s.addModel(fmt.Sprintf("$.models[%d]", i), &m)
	}
	for i, a := range found.Aliases {
		s.addAlias(fmt.Sprintf("$.aliases[%d]", i), a)
	}
	return s, s.Err()
}

// Err returns the problems that were found so far, or nil.
func (s *Source) Err() error { return s.file.Err() }

// problem records a problem at a place such as $.models[0].params.
func (s *Source) problem(place, format string, args ...any) { s.file.Problem(place, format, args...) }

func raw(d yamlfile.Document) json.RawMessage { return json.RawMessage(d) }

func (s *Source) addAlias(place string, a sourceAlias) {
	alias := &Alias{Name: a.Name}
	for name, weight := range a.Models {
		alias.Weights = append(alias.Weights, Weight{name, weight})
	}
	slices.SortFunc(alias.Weights, func(a, b Weight) int { return strings.Compare(a.Name, b.Name) })
	s.checkName(place, a.Name)
	if len(alias.Weights) == 0 {
		s.problem(place, "the alias %s has no models", a.Name)
	}
	total := 0.0
	for _, w := range alias.Weights {
		if !(w.Weight >= 0 && w.Weight <= 1e6) {
			s.problem(place+".models", "the weight of %s is %g: it must be from 0 to 1,000,000", w.Name, w.Weight)
		}
		total += w.Weight
	}
	if len(alias.Weights) > 0 && total <= 0 {
		s.problem(place+".models", "the weights of the alias %s sum to 0: no model would get its jobs", a.Name)
	}
	s.Aliases = append(s.Aliases, alias)
}

// Without returns the source without the entries whose names match.
func (s *Source) Without(match func(name string) bool) *Source {
	less := *s
	less.Models = slices.DeleteFunc(slices.Clone(s.Models), func(m *Model) bool { return match(m.Name) })
	less.Aliases = slices.DeleteFunc(slices.Clone(s.Aliases), func(a *Alias) bool { return match(a.Name) })
	return &less
}
