package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Problem is what is wrong with the settings of a model. Place is the path of the part, such as
// .graph.6; it is "" for the settings as a whole.
type Problem struct{ Place, Text string }

func (p *Problem) Error() string { return p.Text }

// Problemf returns a Problem.
func Problemf(place, format string, args ...any) error {
	return &Problem{place, fmt.Sprintf(format, args...)}
}

// Within returns a problem of a part as one of what is around it: place is the part's own.
func Within(place string, err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return &Problem{place + p.Place, p.Text}
	}
	return err
}

// Decode reads the settings of a model into a struct; none leave it as it is. fields are those that
// they may have, for the message.
func Decode(kind Kind, fields string, settings json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(settings))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	err := decoder.Decode(into)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return Problemf("", "settings have no field %.80s: those of the runtime %s have %s", name, kind, fields)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return Problemf("."+wrong.Field, "settings.%s must not be a JSON %s", wrong.Field, wrong.Value)
	}
	return Problemf("", "the settings of the runtime %s have %s: %s", kind, fields, strings.TrimPrefix(err.Error(), "json: "))
}

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// ValidName reports whether a parameter of a model, or an input of an engine, can have this name.
func ValidName(name string) bool { return validName.MatchString(name) }
