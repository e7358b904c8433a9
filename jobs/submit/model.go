package submit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
)

// chooseModel returns the model for a submission and its validated params. A submission that names
// an alias must be valid for each model of the alias, so that acceptance does not depend on chance.
func chooseModel(known *catalogue.Snapshot, in *Submission) (*catalogue.Model, json.RawMessage, error) {
	candidates, err := known.Candidates(in.Model)
	if err != nil {
		return nil, nil, err
	}
	chosen := catalogue.Choose(candidates)
	var params json.RawMessage
	for _, c := range candidates {
		valid, err := in.validFor(c.Model)
		if err != nil {
			return nil, nil, refusedBy(c.Model, in.Model, err)
		}
		if c.Model == chosen {
			params = valid
		}
	}
	return chosen, params, nil
}

// validFor checks what depends on the model, and returns the params with its defaults.
func (in *Submission) validFor(model *catalogue.Model) (json.RawMessage, error) {
	if in.Type != "" && in.Type != model.Type {
		return nil, apierror.Invalid("type", "The type of the model %s is %s, not %s.", model.Name, model.Type, text.Clip(in.Type, 64))
	}
	if err := ValidPrompt(in.Prompt, model); err != nil {
		return nil, err
	}
	valid, err := model.Params(in.Params)
	if err == nil && in.Draft != nil {
		err = model.CheckDraft(valid, in.Draft.Steps)
	}
	return valid, err
}

// refusedBy adds to an error which model of an alias refuses a submission. Without an alias the
// caller knows the model.
func refusedBy(model *catalogue.Model, asked string, err error) error {
	var e *apierror.Error
	if model.Name == asked || !errors.As(err, &e) {
		return err
	}
	said := *e
	said.Message = fmt.Sprintf("The model %s, which a job of the alias %s can get, refuses it: %s", model.Name, text.Clip(asked, 64),
		e.Message)
	return &said
}

// ValidPrompt checks a prompt against the limits and against the model's rules for prompts.
func ValidPrompt(prompt string, model *catalogue.Model) error {
	switch {
	case model.RequiresPrompt && strings.TrimSpace(prompt) == "":
		return apierror.Invalid("prompt", "The prompt is empty: describe what the video should show.")
	case !utf8.ValidString(prompt):
		return apierror.Invalid("prompt", "The prompt is not valid UTF-8.")
	case strings.ContainsRune(prompt, 0):
		return apierror.Invalid("prompt", "The prompt has a NUL character (U+0000): remove it.")
	case strings.ContainsFunc(prompt, func(r rune) bool { return unicode.Is(unicode.Noncharacter_Code_Point, r) }):
		return apierror.Invalid("prompt", "The prompt has a Unicode noncharacter, such as U+FFFE: it has another byte order, or is not text.")
	case len(prompt) > maxPromptBytes || utf8.RuneCountInString(prompt) > MaxPromptRunes:
		return apierror.Invalid("prompt", "The prompt may have %d characters and %d bytes; this one has %d and %d.",
			MaxPromptRunes, maxPromptBytes, utf8.RuneCountInString(prompt), len(prompt))
	case hasPileOfMarks(prompt):
		return apierror.Invalid("prompt", "The prompt has more than %d combining marks on one character: leave some out.", maxMarks)
	}
	return nil
}

// hasPileOfMarks reports whether more than maxMarks combining marks follow each
// other.
func hasPileOfMarks(text string) bool {
	pile := 0
	for _, r := range text {
		if pile++; !unicode.Is(unicode.M, r) {
			pile = 0
		}
		if pile > maxMarks {
			return true
		}
	}
	return false
}
