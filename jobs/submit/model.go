package submit

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
)

// chooseModel returns the model for a submission and its validated params. A submission that
// names an alias must be valid for each model that it can get, so that whether it is accepted
// does not depend on chance.
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

// refusedBy says which model of an alias refuses a submission. Without an alias the caller knows.
func refusedBy(model *catalogue.Model, asked string, err error) error {
	var e *apierror.Error
	if model.Name == asked || !errors.As(err, &e) {
		return err
	}
	said := *e
	said.Message = fmt.Sprintf("The model %s, which a job of the alias %s can get, refuses it: %s", model.Name, text.Clip(asked, 64), e.Message)
	return &said
}
