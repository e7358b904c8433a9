package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/wellformed"
)

// Fields is a JSON object under construction. Its values stay as they were written.
type Fields map[string]json.RawMessage

// ParseFields builds an object from base, which is JSON or a file (@path, or @- for
// standard input), and adds key=value pairs.
func ParseFields(base string, pairs []string, stdin io.Reader) (Fields, error) {
	object := Fields{}
	if path, isFile := strings.CutPrefix(base, "@"); isFile {
		var err error
		if base, err = ReadText(path, stdin); err != nil {
			return nil, err
		}
	}
	if base != "" {
		if err := json.Unmarshal([]byte(base), &object); err != nil || object == nil {
			return nil, errors.New("this is not a JSON object such as {\"seed\": 7}")
		}
		if err := wellformed.JSON([]byte(base)); err != nil { // a decoder would take the last of two values
			return nil, Unreadable(err)
		}
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not name=value", pair)
		}
		if !utf8.ValidString(pair) {
			return nil, fmt.Errorf("%s is not valid UTF-8", text.Printable(name))
		}
		if given[name] {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		given[name] = true
		object[name] = JSONValue(value)
	}
	return object, nil
}

// JSONValue returns a value as JSON if it is valid JSON, else as a JSON string.
func JSONValue(value string) json.RawMessage {
	if json.Valid([]byte(value)) && utf8.ValidString(value) {
		return json.RawMessage(value)
	}
	quoted, _ := json.Marshal(value) // a string always has a JSON form
	return quoted
}

// Set adds the value of a dedicated flag. It returns an error if --param sets it too.
func (f Fields) Set(name string, value any) error {
	if _, twice := f[name]; twice {
		return fmt.Errorf("%s is given twice, by its own flag and by --param or --params: use one of them", name)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s is %v: it must be a finite number", name, value)
	}
	f[name] = text
	return nil
}

// Message returns the object for the API, or nil if it is empty.
func (f Fields) Message() *json.RawMessage {
	if len(f) == 0 {
		return nil
	}
	text, _ := json.Marshal(f) // made of valid JSON only
	return new(json.RawMessage(text))
}

// ErrIncomplete is the error of a JSON text that ends too early.
var ErrIncomplete = errors.New("its JSON is incomplete: a bracket, brace or quotation mark is not closed")

// Unreadable describes a JSON error.
func Unreadable(err error) error {
	var syntax *json.SyntaxError // of an array's element
	var refused *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ErrIncomplete
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not valid JSON: %w at byte %d", err, syntax.Offset)
	case errors.As(err, &refused):
		return fmt.Errorf("it is not valid JSON: %w at byte %d", refused.Err, refused.ByteOffset)
	}
	return err
}

// First returns the first value that is not blank, without the space around it, or "".
func First(values ...string) string {
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			return v
		}
	}
	return ""
}
