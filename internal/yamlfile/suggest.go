package yamlfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/reelay/reelay/internal/text"
)

// suggestion names the keys that an unknown one was meant to be: the nearest, or all if none is near.
// It returns "" for errors of other kinds.
func (f *File) suggestion(err error) string {
	var unknown *yaml.UnknownFieldError
	if !errors.As(err, &unknown) {
		return ""
	}
	given, known := "", []string(nil)
	ast.Walk(visitor(func(n ast.Node) bool {
		if pair, ok := n.(*ast.MappingValueNode); ok && known == nil &&
			(pair.Value.GetToken() == unknown.Token || pair.GetToken() == unknown.Token || pair.Key.GetToken() == unknown.Token) {
			name := pair.Key.GetToken().Value
			if keys := keysOf(typeAt(f.into, strings.TrimSuffix(pair.Key.GetPath(), "."+name))); !slices.Contains(keys, name) {
				given, known = name, keys
			}
		}
		return known == nil
	}), f.root)
	if len(known) == 0 {
		return ""
	}
	if near := text.Nearest(given, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; the keys here are " + strings.Join(known, ", ")
}

// typeAt returns the type of the value at a path such as $.shots[0].params, or nil.
func typeAt(t reflect.Type, path string) reflect.Type {
	for step := range strings.FieldsFuncSeq(strings.TrimPrefix(path, "$"), func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if t = plain(t); t == nil {
			return nil
		}
		if t.Kind() == reflect.Slice {
			t = t.Elem()
			continue
		}
		t = typeOf(t, step)
	}
	return plain(t)
}

func plain(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// keysOf returns the keys of a struct.
func keysOf(t reflect.Type) (keys []string) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			keys = append(keys, keysOf(plain(field.Type))...)
		case name != "" && name != "-":
			keys = append(keys, name)
		}
	}
	return keys
}
