package submit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/strictjson"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const (
	// fallbackParam is the parameter that stands for Fallback, unless the model has one of that name.
	fallbackParam = "fallback"
	// maxFallbackParams bounds the params in which it is looked for. The model has a limit of its own.
	maxFallbackParams = 1 << 20
)

// takeFallback makes params.fallback the Fallback of a submission without one.
func (in *Submission) takeFallback(known *catalogue.Snapshot) error {
	if in.Fallback != nil || !bytes.Contains(in.Params, []byte(`"`+fallbackParam+`"`)) {
		return nil
	}
	candidates, err := known.Candidates(in.Model)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(candidates, func(c catalogue.Candidate) bool { return c.Model.Takes(fallbackParam) }) {
		return nil
	}
	value, err := strictjson.Read("params", in.Params, maxFallbackParams)
	if err != nil {
		return err
	}
	params, ok := value.(map[string]any)
	if !ok {
		return nil // the model refuses it
	}
	named, given := params[fallbackParam]
	if !given {
		return nil // a deeper part has that name
	}
	delete(params, fallbackParam)
	list, err := json.Marshal(named)
	if err != nil {
		return apierror.Wrap(err, "encode fallback")
	}
	if json.Unmarshal(list, &in.Fallback) != nil {
		return apierror.Invalid("params.fallback", "params.fallback must be a list of names of models.")
	}
	in.Params, err = json.Marshal(params)
	return apierror.Wrap(err, "encode params")
}

// fallback returns the models that may render a job of model instead: those that the request names, or else
// those of the model's list that take the job.
func (in *Submission) fallback(known *catalogue.Snapshot, model *catalogue.Model, job *models.Job) (*models.Fallback, error) {
	excluded := in.AtMostOnce || in.Draft != nil || job.Approval()
	if in.Fallback != nil {
		if err := in.validFallback(known, model, job, excluded); err != nil {
			return nil, err
		}
	}
	names := in.Fallback
	if names == nil && !excluded {
		names = lo.Filter(model.Fallback, func(name string, _ int) bool {
			other := known.Find(name, 0)
			return other != nil && in.takenBy(other, model, job) == nil
		})
	}
	if len(names) == 0 {
		return nil, nil
	}
	return &models.Fallback{Models: names, Defaulted: defaulted(in.Params, job.Params)}, nil
}

// validFallback checks the names of the request.
func (in *Submission) validFallback(known *catalogue.Snapshot, model *catalogue.Model, job *models.Job, excluded bool) error {
	own, err := known.Candidates(in.Model)
	if err != nil {
		return err
	}
	switch {
	case len(in.Fallback) > catalogue.MaxFallback:
		return apierror.Invalid("fallback", "fallback may name %d models; it names %d.", catalogue.MaxFallback, len(in.Fallback))
	case len(in.Fallback) > 0 && excluded:
		return apierror.Invalid("fallback", "A draft, an approval and a job with atMostOnce run on their own model only: leave out fallback.")
	}
	for i, name := range in.Fallback {
		other, err := known.Model(name)
		switch {
		case name == in.Model || slices.ContainsFunc(own, func(c catalogue.Candidate) bool { return c.Model.Name == name }):
			return apierror.Invalid("fallback", "fallback names %s, the job's own model: name others.", text.Clip(name, catalogue.MaxName))
		case slices.Contains(in.Fallback[:i], name):
			return apierror.Invalid("fallback", "fallback names %s twice: each model is tried once.", text.Clip(name, catalogue.MaxName))
		case err != nil:
			return inFallback("fallback names %s. %s", name, err)
		}
		if err := in.takenBy(other, model, job); err != nil {
			return inFallback("The model %s, which fallback names, refuses the job: %s", name, err)
		}
	}
	return nil
}

// inFallback says which model of the list caused an error.
func inFallback(format, name string, err error) error {
	var e *apierror.Error
	if !errors.As(err, &e) {
		return err
	}
	said := *e
	said.Field, said.Message = "fallback", fmt.Sprintf(format, text.Clip(name, catalogue.MaxName), e.Message)
	return &said
}

// takenBy returns INVALID_INPUT unless another model takes the request as it is, and the same files as the job's model.
func (in *Submission) takenBy(other, model *catalogue.Model, job *models.Job) error {
	if other.Type != model.Type || other.Produces != model.Produces {
		return apierror.Invalid("fallback", "Its type is %s, not %s.", other.Type, model.Type)
	}
	params, err := in.validFor(other)
	if err != nil {
		return err
	}
	files, same := other.Inputs(params), model.Inputs(job.Params)
	if !slices.EqualFunc(files, same, func(a, b catalogue.Input) bool {
		return a.Name == b.Name && a.Reference == b.Reference && lo.Every(a.Kinds, b.Kinds)
	}) {
		return apierror.Invalid("fallback", "It takes the files of the params in another way than %s.", model.Name)
	}
	return nil
}

// defaulted lists the params that the request does not give, sorted.
func defaulted(asked, all json.RawMessage) []string {
	var given, params map[string]json.RawMessage
	_ = json.Unmarshal(asked, &given) // both were checked before
	_ = json.Unmarshal(all, &params)
	names := lo.Without(lo.Keys(params), lo.Keys(given)...)
	slices.Sort(names)
	return names
}
