// Package yamlfile reads YAML files that people write: bounded, strict, and with the line of
// each problem.
package yamlfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/reelay/reelay/internal/text"
)

const (
	// MaxBytes is how large a file of Read may be.
	MaxBytes = 256 << 10
	// maxProblems is how many problems of a file are reported at once.
	maxProblems = 10
	maxText     = 1000
	// maxDepth is how deep lists and maps may be nested.
	maxDepth = 64
)

// File is a file that is being checked.
type File struct {
	name  string
	root  ast.Node
	into  reflect.Type
	wrong []problem
}

type problem struct {
	line int
	text string
}

// Document is a part of a file, as JSON with its keys in their order.
type Document json.RawMessage

// UnmarshalYAML implements yaml.NodeUnmarshaler. With yaml.BytesUnmarshaler, the decoder would format
// all of the file for each part.
func (d *Document) UnmarshalYAML(part ast.Node) (err error) {
	*d, err = inJSON(part)
	return err
}

// Read decodes a file into a value with yaml tags. It refuses unknown and repeated keys,
// anchors, tags, several documents and deep nesting. An error names the file and the line. what says
// what the file has, for an empty one.
//
// A field that is a text keeps what is written, quoted or not; null alone means that it is not given. Other
// unquoted values are those of YAML 1.2. A number with a zero at its beginning is refused, as YAML 1.1 reads
// it as octal.
func Read(name, what string, data []byte, into any) (*File, error) {
	return ReadUpTo(MaxBytes, name, what, data, into)
}

// ReadUpTo is Read for a file of up to limit bytes.
func ReadUpTo(limit int, name, what string, data []byte, into any) (*File, error) {
	f := &File{name: name, into: reflect.TypeOf(into)}
	if len(data) > limit {
		return nil, fmt.Errorf("%s: the file may have %d bytes; it is longer", name, limit)
	}
	data, err := text.OfFile(data)
	if err != nil {
		return nil, f.encoding(err)
	}
	if line := controlLine(data); line > 0 {
		return nil, fmt.Errorf("%s:%d: the line has a control character: remove it, or write it as an escape within quotation marks", name, line)
	}
	if deep(data) {
		return nil, fmt.Errorf("%s: the file is nested more than %d levels deep", name, maxDepth)
	}
	if bytes.IndexByte(data[bytes.LastIndexByte(data, '\n')+1:], '!') >= 0 {
		data = append(data, '\n') // the lexer loses a tag that ends the file
	}
	tokens := lexer.Tokenize(string(data))
	if err := f.lost(tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, f.hinting(f.syntax(err), data)
	}
	parsed.Docs = slices.DeleteFunc(parsed.Docs, func(doc *ast.DocumentNode) bool {
		return doc.Body == nil || doc.Body.Type() == ast.DirectiveType // a marker without a text, and %YAML
	})
	if len(parsed.Docs) == 0 {
		return nil, fmt.Errorf("%s: the file is empty: it must have %s", name, what)
	}
	f.root = parsed.Docs[0].Body
	if line := aliasLine(f.root); line > 0 {
		return nil, fmt.Errorf("%s:%d: anchors, aliases and tags of YAML are not supported: repeat the text, or quote a text that begins with !, & or *", name, line)
	}
	if f.root, err = f.resolve(f.root, f.into); err != nil {
		return nil, f.hinting(err, data)
	}
	if err := f.wholeNumbers(f.root, f.into); err != nil {
		return nil, err
	}
	if err := yaml.NewDecoder(strings.NewReader(""), yaml.Strict()).DecodeFromNode(f.root, into); err != nil && !errors.Is(err, io.EOF) {
		return nil, f.hinting(f.syntax(err), data)
	}
	return f, nil
}

// Err returns the problems that were found so far, in the order of their lines, or nil.
func (f *File) Err() error {
	if len(f.wrong) == 0 {
		return nil
	}
	slices.SortStableFunc(f.wrong, func(a, b problem) int { return a.line - b.line })
	var lines []string
	for i, p := range f.wrong {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("%s: and %d more", f.name, len(f.wrong)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("%s:%d: %s", f.name, p.line, p.text))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Problem records a problem at a place such as $.models[0].params.
func (f *File) Problem(place, format string, args ...any) {
	f.wrong = append(f.wrong, problem{f.line(place), text.Clip(fmt.Sprintf(format, args...), maxText)})
}

// Given reports whether the file has a value at a place such as $.pools[0].maxWorkers, not null.
func (f *File) Given(place string) bool {
	path, err := yaml.PathString(place)
	if err != nil {
		return false
	}
	node, err := path.FilterNode(f.root)
	return err == nil && node != nil && node.Type() != ast.NullType
}

// line returns the line of a place, or of the nearest part around it that the file has.
func (f *File) line(place string) int {
	for ; place != ""; place = place[:max(strings.LastIndexAny(place, ".["), 0)] {
		path, err := yaml.PathString(place)
		if err != nil {
			continue
		}
		if node, err := path.FilterNode(f.root); err == nil && node != nil && node.GetToken() != nil {
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

// syntax is an error of the YAML package, without its excerpt of the file.
func (f *File) syntax(err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		return fmt.Errorf("%s:%d: %s", f.name, at.GetToken().Position.Line,
			text.Clip(cmp.Or(f.wrongType(err), advice(at.GetMessage()), at.GetMessage()+f.suggestion(err)), maxText))
	}
	return fmt.Errorf("%s: %s", f.name, text.Clip(text.Printable(err.Error()), maxText))
}

// advice says what to do about some problems of syntax. It returns "" for the others.
func advice(message string) string {
	switch {
	case strings.Contains(message, "'\t'"):
		return "the line is indented with a tab: indent it with spaces"
	case strings.HasPrefix(message, "mapping value is not allowed"):
		return "a second colon makes no sense here: quote a text that has a colon and a space in it"
	case strings.HasSuffix(message, "is a reserved character"):
		return message + " at the beginning of a text: quote the text"
	case strings.HasPrefix(message, "unexpected directive"):
		return "% is a reserved character at the beginning of a text: quote the text"
	case strings.HasPrefix(message, "undefined alias"), strings.HasPrefix(message, "undefined anchor"):
		return "* and & are reserved characters at the beginning of a text: quote the text"
	case message == "unexpected scalar value type":
		return "this is not a value: quote a text that begins with * or &, and write something between two commas"
	case message == "could not find flow map content":
		return "{ is a reserved character at the beginning of a text: quote the text"
	case strings.HasPrefix(message, "block sequence entries are not allowed"):
		return "a hyphen and a space begin the element of a list, on a line of its own: quote a text that begins with them"
	case strings.HasPrefix(message, "value is not allowed in this context"):
		return "the value does not end here: quote the whole text, and check the indentation and the commas"
	}
	return ""
}

// encoding is the error of a file that is not in UTF-8.
func (f *File) encoding(err error) error {
	var wrong *text.NotUTF8
	if errors.As(err, &wrong) && wrong.Line > 0 {
		return fmt.Errorf("%s:%d: the line is not valid UTF-8: save the file as UTF-8", f.name, wrong.Line)
	}
	return fmt.Errorf("%s: %w", f.name, err)
}

// controlLine returns the first line with a character that YAML does not allow, or 0. The parser takes
// them.
func controlLine(data []byte) int {
	i := bytes.IndexFunc(data, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f })
	if i < 0 {
		return 0
	}
	return 1 + bytes.Count(data[:i], []byte("\n"))
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

// aliasLine returns the line of the first anchor, alias or tag, or 0. The decoder cannot be given a tag
// where it expects a list.
func aliasLine(root ast.Node) int {
	line := 0
	ast.Walk(visitor(func(n ast.Node) bool {
		if t := n.Type(); line == 0 && (t == ast.AnchorType || t == ast.AliasType || t == ast.MergeKeyType || t == ast.TagType) {
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
