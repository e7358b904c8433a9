// Package wellformed refuses request bodies that decoders would silently read
// as something else than was sent.
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

// JSON returns an error unless raw is one JSON document: Text's, a *DuplicateError,
// ErrTooDeep, or one of jsontext.
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
		return errors.New("something follows the JSON document")
	}
	return nil
}

// refused is the error of a document that jsontext refuses.
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
