// Package program describes a program that does jobs: the settings of a model whose runtime is
// `command`. The catalogue checks them when an operator applies them, and the runtime when a
// job starts. docs/users/models.md describes them for operators.
package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Runtime is the name of the runtime that runs programs.
const Runtime = "command"

// Settings say how a job becomes a run of a program.
type Settings struct {
	// Program is the program and its arguments. No shell reads them.
	Program []Argument `json:"program"`
	// Env is added to the program's environment, which otherwise has only PATH, HOME and TMPDIR.
	Env map[string]string `json:"env"`
	// Progress says how the program reports its progress; nil means that it does not.
	Progress *Progress `json:"progress"`
	// Outputs maps video, thumbnail, spritesheet and output to the names of the files that the
	// program writes in its working directory. Each must exist at its end.
	Outputs map[string]string `json:"outputs"`
	// TimeoutSeconds limits one run, over 0 and at most 18,000; 0 leaves it to the model's limit.
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	// SuccessExitCodes are the exit statuses of success, 0 to 255; nil means 0 alone.
	SuccessExitCodes []int `json:"successExitCodes"`
	// Errors classify a failed run. The first that matches counts.
	Errors []Rule `json:"errors"`
	// Install is the sentence that says how to install the program, shown if it is missing.
	Install string `json:"install"`
}

// Argument is one argument of the program or, written as a list, a group of arguments that is
// left out if one of its placeholders has no value.
type Argument struct {
	Words []string
	Group bool
}

// UnmarshalJSON reads a text or a list of texts.
func (a *Argument) UnmarshalJSON(data []byte) error {
	if a.Group = bytes.HasPrefix(data, []byte("[")); a.Group {
		return json.Unmarshal(data, &a.Words)
	}
	a.Words = make([]string, 1)
	return json.Unmarshal(data, &a.Words[0])
}

// Progress says how to read a program's progress from its output. It has exactly one field.
type Progress struct {
	// Regexp is matched against each line of both outputs. Its named groups are percent, or step
	// and total, and optionally message.
	Regexp string `json:"regexp"`
	// JSONLines means that each line of the standard output that is a JSON object is a report.
	JSONLines bool `json:"jsonLines"`
}

// Rule classifies a failed run by its exit status, by a line of its outputs, or both.
type Rule struct {
	Regexp   string `json:"regexp"`
	ExitCode *int   `json:"exitCode"`
	// Class is a class that a runtime can report, such as INVALID_INPUT.
	Class string `json:"class"`
	// Message replaces the program's last line in what the job's owner reads.
	Message string `json:"message"`
}

// Problem is what is wrong with settings. Place is the path of the part, such as .program[2].
type Problem struct{ Place, Text string }

func problem(place, format string, args ...any) Problem {
	return Problem{place, fmt.Sprintf(format, args...)}
}

// Parse reads settings and returns all that is wrong with them.
func Parse(raw json.RawMessage) (*Settings, []Problem) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	s := &Settings{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(s); err != nil {
		return nil, []Problem{decodeProblem(err)}
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, []Problem{problem("", "settings are followed by something else")}
	}
	return s, s.check()
}

// decodeProblem describes JSON of another form for the settings' author.
func decodeProblem(err error) Problem {
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return problem("", "settings have no field %s: they have program, env, progress, outputs, timeoutSeconds, successExitCodes, errors and install", name)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		place := ""
		if kind.Field != "" {
			place = "." + kind.Field
		}
		return problem(place, "settings%s must not be a JSON %s", place, kind.Value)
	}
	return problem("", "settings cannot be read: %v", err)
}

// pattern compiles a regular expression that check has accepted.
func pattern(text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	return regexp.MustCompile(text)
}

// Pattern returns the compiled Regexp, or nil if there is none.
func (p *Progress) Pattern() *regexp.Regexp {
	if p == nil {
		return nil
	}
	return pattern(p.Regexp)
}

// Pattern returns the compiled Regexp, or nil if there is none.
func (r Rule) Pattern() *regexp.Regexp { return pattern(r.Regexp) }
