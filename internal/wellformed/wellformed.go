// Package wellformed refuses request bodies that decoders would silently read
// as something else than was sent.
package wellformed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	// ErrNotUTF8 means that the text is not valid UTF-8: a decoder would put
	// U+FFFD for the bad bytes.
	ErrNotUTF8 = errors.New("the text is not valid UTF-8")
	// ErrLoneSurrogate means that an escape names half of a character.
	ErrLoneSurrogate = errors.New(`the text holds half of a character (a \ud800–\udfff escape without its other half)`)
	// ErrTooDeep means that JSON is nested deeper than MaxDepth.
	ErrTooDeep = errors.New("the JSON is nested too deeply")
)

// MaxDepth is how many levels of objects and lists JSON may have.
const MaxDepth = 64

// Text returns ErrNotUTF8 or ErrLoneSurrogate for what a JSON or GraphQL decoder
// would silently replace by U+FFFD.
func Text(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return ErrNotUTF8
	case HasLoneSurrogate(string(raw)):
		return ErrLoneSurrogate
	}
	return nil
}

// HasLoneSurrogate looks for \u escapes, as JSON and GraphQL have them, that are
// half of a pair.
func HasLoneSurrogate(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit := escapedUnit(text[i:])
		i++ // whatever is escaped, a backslash too
		if !utf16.IsSurrogate(unit) {
			continue
		}
		i += 4
		if utf16.DecodeRune(unit, escapedUnit(text[i+1:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit is the UTF-16 unit that a text begins with, or -1.
func escapedUnit(text string) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// DuplicateError names a key that a JSON object has twice: decoders disagree
// about which one counts.
type DuplicateError struct {
	// Path leads to it: keys, and places in lists from 0, with dots between them.
	Path string
}

func (e *DuplicateError) Error() string { return fmt.Sprintf("the key %q is there twice", e.Path) }

// within adds to an error's path where in an object or list it was found.
func within(name string, err error) error {
	var twice *DuplicateError
	if errors.As(err, &twice) {
		twice.Path = name + "." + twice.Path
	}
	return err
}

// JSON returns an error unless raw is one JSON document: Text's, a
// *DuplicateError, ErrTooDeep, or one of encoding/json.
func JSON(raw []byte) error {
	if err := Text(raw); err != nil {
		return err
	}
	if json.Valid(raw) && plain(raw) {
		return nil
	}
	return byTokens(raw)
}

// byTokens is JSON for what is not plain.
func byTokens(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := value(decoder, MaxDepth); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON document")
	}
	return nil
}

// plainKeys is up to how many keys plain compares each with each.
const plainKeys = 32

// plain tells of valid JSON whether it is seen at a glance that it has no key twice
// and is not nested too deeply. Of almost all that comes it is.
func plain(raw []byte) bool {
	type nest struct {
		object bool
		keys   int // where in seen its own begin
	}
	var (
		seen  = make([][]byte, 0, plainKeys)
		nests = make([]nest, 0, 8)
		isKey bool // what comes next
	)
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if len(nests) == MaxDepth {
				return false
			}
			isKey = raw[i] == '{'
			nests = append(nests, nest{isKey, len(seen)})
		case '}', ']':
			seen, nests = seen[:nests[len(nests)-1].keys], nests[:len(nests)-1]
		case ',':
			isKey = nests[len(nests)-1].object
		case '"':
			start := i + 1
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					if isKey {
						return false // it may be another one's equal
					}
					i++
				}
			}
			if !isKey {
				continue
			}
			isKey = false
			of := nests[len(nests)-1]
			key := raw[start:i]
			if len(seen)-of.keys == plainKeys || slices.ContainsFunc(seen[of.keys:], func(k []byte) bool { return bytes.Equal(k, key) }) {
				return false
			}
			seen = append(seen, key)
		}
	}
	return true
}

// Members are the members of a JSON object of which JSON returned no error: each one's
// name, and its value as it is written.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var name []byte // with its quotes
		depth, begin := 0, -1
		for i := 0; i < len(object); i++ {
			switch object[i] {
			case '"':
				start := i
				for i++; object[i] != '"'; i++ {
					if object[i] == '\\' {
						i++
					}
				}
				if name == nil {
					name = object[start : i+1]
				}
				continue
			case '{', '[':
				depth++
				continue
			case ':':
				if depth == 1 {
					begin = i + 1
				}
				continue
			case '}', ']':
				if depth--; depth > 0 {
					continue
				}
			case ',':
				if depth > 1 {
					continue
				}
			default:
				continue
			}
			if name == nil {
				return // of an empty object
			}
			if !yield(unquoted(name), bytes.TrimSpace(object[begin:i])) {
				return
			}
			name = nil
		}
	}
}

// unquoted is what a JSON string says.
func unquoted(quoted []byte) (text string) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}

func value(decoder *json.Decoder, depth int) error {
	token, err := decoder.Token()
	if err != nil {
		return unended(err)
	}
	kind, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	if depth == 0 {
		return ErrTooDeep
	}
	keys := map[string]bool{}
	for place := 0; decoder.More(); place++ {
		name := strconv.Itoa(place)
		if kind == '{' {
			token, err := decoder.Token()
			if err != nil {
				return unended(err)
			}
			name, _ = token.(string) // the decoder takes no other
			if keys[name] {
				return &DuplicateError{name}
			}
			keys[name] = true
		}
		if err := value(decoder, depth-1); err != nil {
			return within(name, err)
		}
	}
	_, err = decoder.Token()
	return unended(err)
}

// unended is err, in which the end of the text is no good end.
func unended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
