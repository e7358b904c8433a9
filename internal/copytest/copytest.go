// Package copytest tests functions that copy the fields of a struct one by one: a field that is
// added later fails the test, until somebody copies it or says why it is left out.
package copytest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Left names fields that are not copied, separated by spaces, by the reason.
type Left map[string]string

// Fields fails unless each exported field of from changes what copied returns, or is one of left. It
// calls copied with one field changed at a time: to zero, or from zero to some value. A field of an
// embedded struct counts as one of from.
func Fields[T any](t *testing.T, from T, left Left, copied func(T) any) {
	t.Helper()
	reasons := map[string]string{}
	for reason, names := range left {
		for name := range strings.FieldsSeq(names) {
			require.NotContains(t, reasons, name, "it is named twice")
			reasons[name] = reason
		}
	}
	before := copied(from)
	require.Equal(t, before, copied(from), "equal values must have equal copies")
	for _, field := range exported(reflect.TypeFor[T]()) {
		changed := from
		change(reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index))
		same := reflect.DeepEqual(before, copied(changed))
		reason, isLeft := reasons[field.Name]
		delete(reasons, field.Name)
		switch {
		case same && !isLeft:
			t.Errorf("%s is not copied: copy it, or name it with the reason", field.Name)
		case !same && isLeft:
			t.Errorf("%s is copied, although it is named as left out: %s", field.Name, reason)
		}
	}
	require.Empty(t, reasons, "there are no such fields")
}

// exported returns the exported fields of a struct, with those of embedded structs in their place.
func exported(of reflect.Type) (fields []reflect.StructField) {
	for _, field := range reflect.VisibleFields(of) {
		if field.IsExported() && !field.Anonymous {
			fields = append(fields, field)
		}
	}
	return fields
}

// change sets a value to zero, or to another value if it is zero.
func change(v reflect.Value) {
	if v.IsZero() {
		fill(v)
	} else {
		v.SetZero()
	}
}

// fill sets a value, and all exported fields below it, to something that is not zero.
func fill(v reflect.Value) {
	const number = 7
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(number)
	case reflect.Float64:
		v.SetFloat(number)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"x":1}`)) // bytes, or JSON
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			v.Set(reflect.ValueOf(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)))
			return
		}
		for _, field := range exported(v.Type()) {
			fill(v.FieldByIndex(field.Index))
		}
	default:
		panic("no value of a " + v.Type().String() + " is known: add one here")
	}
}
