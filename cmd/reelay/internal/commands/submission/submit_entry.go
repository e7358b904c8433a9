package submission

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/wellformed"
)

// maxLine is more than the API accepts for one submission.
const maxLine = 256 << 10

// entry is one submission of a file, or the error that ends the file.
type entry struct {
	unit string // what at counts from 1: line, or element of an array
	at   int
	text json.RawMessage
	// problem is why it is not a submission, although what follows may be some.
	problem error
	header  []string // of CSV
	row     []string
	end     int64 // how many bytes of the file were read up to here
	err     error
}

// entries yields the elements of a JSON array, or otherwise the lines that are not
// empty.
func entries(from *bufio.Reader, yield func(entry) bool) {
	for line := 1; ; {
		switch first, err := from.Peek(1); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			yield(entry{unit: "line", at: line, err: err})
			return
		case bytes.ContainsAny(first, " \t\r\n"):
			if first[0] == '\n' {
				line++
			}
			from.Discard(1)
		case first[0] == '[':
			elements(from, yield)
			return
		default:
			lines(from, line, yield)
			return
		}
	}
}

// lines yields each line that is not empty, or an object that is spread over lines: from a line with
// nothing but { to one with nothing but }, as indented JSON has them.
func lines(in io.Reader, line int, yield func(entry) bool) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	end := int64(0)
	var open []byte // an object that has begun
	var opens string
	began := 0
	for ; scanner.Scan(); line++ {
		end += int64(len(scanner.Bytes()) + 1)
		text := bytes.TrimSpace(scanner.Bytes())
		indent := string(scanner.Bytes()[:bytes.Index(scanner.Bytes(), text)])
		switch {
		case open == nil && len(text) == 0:
			continue
		case open == nil && string(text) == "{":
			open, opens, began = append([]byte(nil), '{', '\n'), indent, line
			continue
		case open != nil && len(open)+len(scanner.Bytes()) > maxLine:
			yield(entry{unit: "line", at: began, err: fmt.Errorf("it is longer than %d kB: a brace may not be closed", maxLine>>10)})
			return
		case open != nil && (string(text) != "}" || indent != opens):
			open = append(append(open, scanner.Bytes()...), '\n')
			continue
		}
		e := entry{unit: "line", at: line, text: bytes.Clone(text), end: end}
		if open != nil {
			e.at, e.text, open = began, append(open, '}'), nil
		}
		if !yield(e) {
			return
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		yield(entry{unit: "line", at: line, err: fmt.Errorf("it is longer than %d kB", maxLine>>10)})
	case err != nil:
		yield(entry{unit: "line", at: line, err: err})
	case open != nil:
		yield(entry{unit: "line", at: began, text: open, end: end})
	}
}

// maxElement is what may be read for an element of an array: one of maxLine, and as
// much as the decoder reads ahead.
const maxElement = 4 * maxLine

func elements(in io.Reader, yield func(entry) bool) {
	left := &io.LimitedReader{R: in, N: maxElement}
	decoder := json.NewDecoder(left)
	_, err := decoder.Token()
	at := 1
	for ; err == nil && decoder.More(); at++ {
		left.N = maxElement
		var element json.RawMessage
		if err = decoder.Decode(&element); err != nil {
			break
		}
		if !yield(entry{unit: "element", at: at, text: element, end: decoder.InputOffset()}) {
			return
		}
	}
	if err == nil {
		_, err = decoder.Token()
	}
	if err != nil && left.N <= 0 {
		err = fmt.Errorf("it is longer than %d kB", maxLine>>10)
	}
	if err != nil {
		yield(entry{unit: "element", at: at, err: input.Unreadable(err)})
	}
}

// ReadSubmission decodes a submission field by field, so that an error can name the
// field.
func ReadSubmission(raw json.RawMessage) (in client.SubmitJobInput, err error) {
	if err := wellformed.JSON(raw); err != nil {
		return in, input.Unreadable(err)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return in, errors.New(`it must be a JSON object, such as {"prompt": "a fox"}`)
	}
	if unknown := UnknownField(raw, reflect.TypeOf(in)); unknown != "" {
		return in, fmt.Errorf("a submission has no field %s", unknown)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		one, err := json.Marshal(map[string]json.RawMessage{name: fields[name]})
		if err != nil {
			return in, err
		}
		decoder := json.NewDecoder(bytes.NewReader(one))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&in); err != nil {
			return in, badField(name, err)
		}
	}
	return in, nil
}

// UnknownField names a field of JSON that a Go type does not have with exactly this name, and what may be meant. It
// returns "" if there is none. The decoder takes Prompt for prompt.
func UnknownField(raw json.RawMessage, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]() {
		var entries []json.RawMessage
		_ = json.Unmarshal(raw, &entries) // the decoder says what is wrong with it
		for _, one := range entries {
			if unknown := UnknownField(one, t.Elem()); unknown != "" {
				return unknown
			}
		}
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return ""
	}
	known := map[string]reflect.Type{}
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
			known[name] = field.Type
		}
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(raw, &given) // as above
	for _, name := range slices.Sorted(maps.Keys(given)) {
		of, ok := known[name]
		if !ok {
			hint := ""
			if near := text.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
				hint = "; did you mean " + near + "?"
			}
			return fmt.Sprintf("%q%s", text.Clip(name, 64), hint)
		}
		if unknown := UnknownField(given[name], of); unknown != "" {
			return unknown
		}
	}
	return ""
}

// badField describes an error in a field of a submission.
func badField(name string, err error) error {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		return fmt.Errorf("%s must be %s; it is of the kind %s", mistyped.Field, inWords[mistyped.Type.Kind()], mistyped.Value)
	}
	return fmt.Errorf("%s must be a time as in 2027-01-02T15:04:05Z", name) // nothing else has its own rules
}

// inWords describes the values that a field of a submission accepts.
var inWords = map[reflect.Kind]string{
	reflect.String: "a string", reflect.Int: "a whole number", reflect.Float64: "a number", reflect.Bool: "true or false",
	reflect.Slice: "a list", reflect.Struct: "an object",
}
