package catalogue

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/jsondiff"
	"github.com/reelay/reelay/internal/text"
)

// Export returns entries as a file that Parse reads, in YAML: those of these names, or all current ones if
// names is empty. A removed entry is exported with its last version. Export returns NOT_FOUND for a name that
// never was one.
func (s *Snapshot) Export(names []string) (string, error) {
	if len(names) == 0 {
		names = s.Names()
	}
	if len(names) > maxExport {
		return "", apierror.Invalid("names", "names may have %d names.", maxExport)
	}
	var all exported
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		if err := s.export(&all, name); err != nil {
			return "", err
		}
	}
	return all.String(), nil
}

// maxExport bounds the names of one export.
const maxExport = 1000

// export adds the entry of a name.
func (s *Snapshot) export(to *exported, name string) error {
	if m := s.newest(name); m != nil {
		return to.model(m)
	}
	if a := s.alias(name); a != nil {
		return to.alias(a)
	}
	for _, r := range s.removed {
		if r.Name == name && r.Alias {
			a := &Alias{Name: name}
			if err := json.Unmarshal(r.entry, &a.Weights); err != nil {
				return fmt.Errorf("read the alias %s: %w", name, err)
			}
			return to.alias(a)
		}
	}
	return apierror.New(apierror.CodeNotFound, "There is no model or alias %s.", text.Clip(name, MaxName))
}

// Source returns the model as a file that Parse reads, in YAML.
func (m *Model) Source() (string, error) {
	var one exported
	err := one.model(m)
	return one.String(), err
}

// exported are entries, each as an element of a list in YAML.
type exported struct{ models, aliases []string }

func (e *exported) String() string {
	var b strings.Builder
	for _, list := range []struct {
		name    string
		entries []string
	}{{"models", e.models}, {"aliases", e.aliases}} {
		if len(list.entries) > 0 {
			b.WriteString(list.name + ":\n" + strings.Join(list.entries, ""))
		}
	}
	return b.String()
}

func (e *exported) model(m *Model) error {
	entry, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the model %s: %w", m.Name, err)
	}
	written, err := yaml.JSONToYAML(entry)
	element := elementOf(string(written))
	if err != nil || !same(m, entry, element) {
		element = "  - " + string(entry) + "\n" // JSON is YAML, too
	}
	e.models = append(e.models, element)
	return nil
}

// same reports whether an element of a list of models is read as that model.
func same(m *Model, entry json.RawMessage, element string) bool {
	read, err := Parse(m.Name, []byte("models:\n"+element))
	if err != nil || len(read.Models) != 1 {
		return false
	}
	back, err := json.Marshal(read.Models[0])
	return err == nil && len(jsondiff.Compare(entry, back)) == 0
}

func (e *exported) alias(a *Alias) error {
	weights := map[string]float64{}
	for _, w := range a.Weights {
		weights[w.Name] = w.Weight
	}
	written, err := yaml.Marshal(sourceAlias{a.Name, weights})
	if err != nil {
		return fmt.Errorf("encode the alias %s: %w", a.Name, err)
	}
	e.aliases = append(e.aliases, elementOf(string(written)))
	return nil
}

// elementOf makes a map in YAML the element of a list.
func elementOf(written string) string {
	lines := strings.Split(strings.TrimSuffix(written, "\n"), "\n")
	for i, line := range lines {
		switch {
		case i == 0:
			lines[i] = "  - " + line
		case line != "":
			lines[i] = "    " + line
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
