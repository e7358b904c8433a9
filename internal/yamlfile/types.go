package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/reelay/reelay/internal/text"
)

// maxShown is how much of a wrong value is shown, in bytes.
const maxShown = 64

// wrongType describes an error of the decoder by the field, what it must be and what it is. It
// returns "" for errors of other kinds.
func (f *File) wrongType(err error) string {
	var kind *yaml.TypeError
	var node *yaml.UnexpectedNodeTypeError
	var overflow *yaml.OverflowError
	switch {
	case errors.As(err, &kind):
		return f.mustBe(kind.Token, text.OfType(kind.DstType))
	case errors.As(err, &node):
		return f.mustBe(node.Token, nodeWords(node.Expected))
	case errors.As(err, &overflow):
		return f.mustBe(overflow.Token, text.OfType(overflow.DstType)+" within its limits")
	}
	return ""
}

func (f *File) mustBe(at *token.Token, what string) string {
	field, is := "a value", ""
	ast.Walk(visitor(func(n ast.Node) bool {
		if is == "" && n.GetToken() == at {
			field, is = fieldOf(n.GetPath()), nodeWords(n.Type())
		}
		return is == ""
	}), f.root)
	if is == "" || is == valueWords {
		is = fmt.Sprintf("%q", text.Clip(at.Value, maxShown))
	}
	return fmt.Sprintf("%s must be %s; it is %s", field, what, is)
}

// fieldOf returns the name at the end of a path such as $.pools[0].zones.
func fieldOf(path string) string {
	if path == "$" {
		return "the file"
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

const valueWords = "a single value"

func nodeWords(t ast.NodeType) string {
	switch t {
	case ast.SequenceType:
		return text.List
	case ast.MappingType, ast.MappingValueType:
		return text.Map
	}
	return valueWords
}

// wholeNumbers refuses a fraction where a whole number is expected, which the decoder would cut
// off.
func (f *File) wholeNumbers(node ast.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.NodeUnmarshaler]()) {
		return nil
	}
	switch n := node.(type) {
	case *ast.FloatNode:
		if t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 {
			return fmt.Errorf("%s:%d: %s", f.name, n.Token.Position.Line, f.mustBe(n.Token, text.OfType(t)))
		}
	case *ast.SequenceNode:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for _, entry := range n.Values {
			if err := f.wholeNumbers(entry, t.Elem()); err != nil {
				return err
			}
		}
	case *ast.MappingNode:
		for _, entry := range n.Values {
			if err := f.wholeNumbers(entry, t); err != nil {
				return err
			}
		}
	case *ast.MappingValueNode:
		if field := typeOf(t, n.Key.GetToken().Value); field != nil {
			return f.wholeNumbers(n.Value, field)
		}
	}
	return nil
}

// typeOf returns the type of the value that a map or a struct has for a key, or nil.
func typeOf(t reflect.Type, key string) reflect.Type {
	if t = plain(t); t == nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
	default:
		return nil
	}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(cmp.Or(field.Tag.Get("yaml"), field.Tag.Get("json")), ",")
		if name == key {
			return field.Type
		}
		if options == "inline" {
			if inner := typeOf(field.Type, key); inner != nil {
				return inner
			}
		}
	}
	return nil
}
