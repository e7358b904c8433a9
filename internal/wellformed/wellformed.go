// Package wellformed refuses request bodies that decoders would silently misread.
package wellformed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	// ErrNotUTF8 means that the text is not valid UTF-8. A decoder would replace the
	// invalid bytes by U+FFFD.
	ErrNotUTF8 = errors.New("the text is not valid UTF-8")
	// ErrLoneSurrogate means that an escape is half of a surrogate pair.
	ErrLoneSurrogate = errors.New(`the text contains half of a character (a \ud800–\udfff escape without its other half)`)
	// ErrTooDeep means that JSON is nested deeper than MaxDepth.
	ErrTooDeep = errors.New("the JSON is nested too deeply")
)

// MaxDepth is the maximum number of nested objects and lists in JSON.
const MaxDepth = 64

// Text returns ErrNotUTF8 or ErrLoneSurrogate if a JSON or GraphQL decoder would silently
// replace a part of raw by U+FFFD.
func Text(raw []byte) error {
	switch {
	case !utf8.Valid(raw):
		return ErrNotUTF8
	case HasLoneSurrogate(string(raw)):
		return ErrLoneSurrogate
	}
	return nil
}

// HasLoneSurrogate reports whether text contains a \u escape, as in JSON and GraphQL, that
// is half of a surrogate pair.
func HasLoneSurrogate(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit := escapedUnit(text[i:])
		i++ // skip the escaped character, which may be a backslash
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

// HasNUL reports whether JSON contains a NUL character in a string or a key, which PostgreSQL
// cannot store. The text \u0000, which JSON writes with a second backslash, is none.
func HasNUL(json []byte) bool {
	for i := 0; i < len(json); i++ {
		if json[i] == '\\' {
			if bytes.HasPrefix(json[i:], []byte(`\u0000`)) {
				return true
			}
			i++ // skip the escaped character, which may be a backslash
		}
	}
	return bytes.IndexByte(json, 0) >= 0
}

// escapedUnit returns the UTF-16 unit of a \u escape at the beginning of text, or -1.
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

// DuplicateError means that a JSON object has a key twice. Decoders disagree about which
// value counts.
type DuplicateError struct {
	// Path is the path of the key: keys and list indexes from 0, separated by dots.
	Path string
}

func (e *DuplicateError) Error() string { return fmt.Sprintf("the key %q occurs twice", e.Path) }

// JSON returns an error unless raw is exactly one JSON document: an error of Text, a
// *DuplicateError, ErrTooDeep, or an error of jsontext.
func JSON(raw []byte) error {
	if err := Text(raw); err != nil {
		return err
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for begun := false; !begun || decoder.StackDepth() > 0; begun = true {
		switch _, err := decoder.ReadToken(); {
		case err != nil:
			return refused(err)
		case decoder.StackDepth() > MaxDepth:
			return ErrTooDeep
		}
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the JSON document")
	}
	return nil
}

// refused converts an error of jsontext.
func refused(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return &DuplicateError{strings.Join(slices.Collect(syntax.JSONPointer.Tokens()), ".")}
	}
	return err
}
