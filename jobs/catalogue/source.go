package catalogue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/reelay/reelay/internal/text"
)

const (
	// MaxSource is how many bytes a file of entries may have.
	MaxSource = 256 << 10
	// maxEntries is how many models and aliases one file may have.
	maxEntries = 200
	// maxProblems is how many problems of a file are reported at once.
	maxProblems = 10
	maxName     = 100
	maxText     = 1000
	// maxDepth is how deep lists and maps may be nested.
	maxDepth = 64
)

// Source is a file of entries, checked as far as it can be without the entries that exist.
type Source struct {
	Models  []*Model
	Aliases []*Alias

	file string
	root ast.Node
	// wrong are the problems, each with its line.
	wrong []problem
}

type problem struct {
	line int
	text string
}

// document is a part of a YAML file, as JSON with its keys in their order.
type document json.RawMessage

// UnmarshalYAML implements yaml.BytesUnmarshaler.
func (d *document) UnmarshalYAML(part []byte) (err error) {
	*d, err = yaml.YAMLToJSON(part)
	return err
}

type sourceModel struct {
	Model    `yaml:",inline"`
	Params   document `yaml:"params"`
	Settings document `yaml:"settings"`
	Quality  document `yaml:"quality"`
}

type sourceAlias struct {
	Name   string             `yaml:"name"`
	Models map[string]float64 `yaml:"models"`
}

// Parse reads a file of entries. It returns an error that lists the problems, each with the
// file's name, the line, and the reason.
func Parse(file string, data []byte) (*Source, error) {
	s := &Source{file: file}
	if err := s.parse(data); err != nil {
		return nil, err
	}
	return s, s.Err()
}

// Err returns the problems that were found so far, or nil.
func (s *Source) Err() error {
	if len(s.wrong) == 0 {
		return nil
	}
	slices.SortStableFunc(s.wrong, func(a, b problem) int { return a.line - b.line })
	var lines []string
	for i, p := range s.wrong {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("%s: and %d more", s.file, len(s.wrong)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("%s:%d: %s", s.file, p.line, p.text))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// problem records a problem at a place such as $.models[0].params.
func (s *Source) problem(place, format string, args ...any) {
	s.wrong = append(s.wrong, problem{s.line(place), text.Clip(fmt.Sprintf(format, args...), maxText)})
}

// line returns the line of a place, or of the nearest part around it that the file has.
func (s *Source) line(place string) int {
	for ; place != ""; place = place[:max(strings.LastIndexAny(place, ".["), 0)] {
		path, err := yaml.PathString(place)
		if err != nil {
			continue
		}
		if node, err := path.FilterNode(s.root); err == nil && node != nil && node.GetToken() != nil {
			return firstLine(node)
		}
	}
	return 1
}

// firstLine returns the line on which a node begins. The token of a map is its first colon.
func firstLine(node ast.Node) int {
	for {
		switch n := node.(type) {
		case *ast.MappingNode:
			if len(n.Values) == 0 {
				return n.GetToken().Position.Line
			}
			node = n.Values[0]
		case *ast.MappingValueNode:
			node = n.Key
		default:
			return node.GetToken().Position.Line
		}
	}
}

func (s *Source) parse(data []byte) error {
	if len(data) > MaxSource {
		return fmt.Errorf("%s: the file may have %d bytes; it has %d", s.file, MaxSource, len(data))
	}
	if deep(data) {
		return fmt.Errorf("%s: the file is nested more than %d levels deep", s.file, maxDepth)
	}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		return s.syntax(err)
	}
	switch {
	case len(parsed.Docs) > 1:
		return fmt.Errorf("%s: the file has %d YAML documents: it must have one", s.file, len(parsed.Docs))
	case len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil:
		return fmt.Errorf("%s: the file is empty: it must have models or aliases", s.file)
	}
	s.root = parsed.Docs[0].Body
	if line := aliasLine(s.root); line > 0 {
		return fmt.Errorf("%s:%d: anchors and aliases of YAML are not supported: repeat the text", s.file, line)
	}
	var found struct {
		Models  []sourceModel `yaml:"models"`
		Aliases []sourceAlias `yaml:"aliases"`
	}
	if err := yaml.NewDecoder(strings.NewReader(""), yaml.Strict()).DecodeFromNode(s.root, &found); err != nil && !errors.Is(err, io.EOF) {
		return s.syntax(err)
	}
	if n := len(found.Models) + len(found.Aliases); n == 0 || n > maxEntries {
		return fmt.Errorf("%s: the file must have 1 to %d models and aliases; it has %d", s.file, maxEntries, n)
	}
	for i := range found.Models {
		m := found.Models[i].Model
		m.Schema, m.Settings, m.Quality = raw(found.Models[i].Params), raw(found.Models[i].Settings), raw(found.Models[i].Quality)
		s.addModel(fmt.Sprintf("$.models[%d]", i), &m)
	}
	for i, a := range found.Aliases {
		s.addAlias(fmt.Sprintf("$.aliases[%d]", i), a)
	}
	return nil
}

func raw(d document) json.RawMessage { return json.RawMessage(d) }

// syntax is an error of the YAML package, without its excerpt of the file.
func (s *Source) syntax(err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		return fmt.Errorf("%s:%d: %s", s.file, at.GetToken().Position.Line, text.Clip(at.GetMessage(), maxText))
	}
	return fmt.Errorf("%s: %s", s.file, text.Clip(text.Printable(err.Error()), maxText))
}

// deep reports whether brackets or indentation nest deeper than maxDepth, before the parser
// recurses into them. Brackets in texts count too.
func deep(data []byte) bool {
	depth, indent, start := 0, 0, true
	for _, b := range data {
		switch {
		case b == '\n':
			indent, start = 0, true
			continue
		case start && (b == ' ' || b == '-' || b == '?'):
			if indent++; indent > 8*maxDepth {
				return true
			}
			continue
		case b == '[' || b == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case b == ']' || b == '}':
			depth = max(depth-1, 0)
		}
		start = false
	}
	return false
}

// aliasLine returns the line of the first anchor or alias, or 0.
func aliasLine(root ast.Node) int {
	line := 0
	ast.Walk(visitor(func(n ast.Node) bool {
		if t := n.Type(); line == 0 && (t == ast.AnchorType || t == ast.AliasType || t == ast.MergeKeyType) {
			line = n.GetToken().Position.Line
		}
		return line == 0
	}), root)
	return line
}

type visitor func(ast.Node) bool

func (v visitor) Visit(n ast.Node) ast.Visitor {
	if v(n) {
		return v
	}
	return nil
}

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
