package text

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// List and Map are what a person calls values that have others in them.
const (
	List = "a list"
	Map  = "a map of keys and values"
)

// OfType says what a value that is read into a Go type must be, such as "a whole number".
func OfType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return OfType(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return List
	case reflect.Map, reflect.Struct:
		return Map
	}
	return "a whole number"
}

// WrongType describes a JSON value of the wrong type: the field after a prefix such as "settings.",
// what it must be, and what it is.
func WrongType(prefix string, e *json.UnmarshalTypeError) string {
	is := e.Value
	switch {
	case is == "array":
		is = List
	case is == "object":
		is = Map
	case is == "string":
		is = "a text"
	case is == "bool":
		is = "true or false"
	case strings.HasPrefix(is, "number "): // and the number itself
		is = strings.TrimPrefix(is, "number ")
	default:
		is = "a " + is
	}
	field := strings.TrimSuffix(prefix+e.Field, ".")
	return fmt.Sprintf("%s must be %s; it is %s", field, OfType(e.Type), Clip(is, 64))
}
