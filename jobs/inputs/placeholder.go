package inputs

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	// maxPlaceholders is how many values of outputs the texts of one job may contain.
	maxPlaceholders = 50
)

// placeholder matches what stands for a value of a job's output, such as
// {{job_0190….output.text}}.
var placeholder = regexp.MustCompile(`\{\{(job_[^{}]*)\}\}`)

// mayHavePlaceholders reports whether a text, or JSON that encoding/json or PostgreSQL wrote, may
// contain placeholders.
func mayHavePlaceholders[T string | json.RawMessage](in T) bool {
	return strings.Contains(string(in), "{{job_")
}

// ValuesIn returns the values of outputs that the texts of a job contain: its prompt, and the
// strings in its params. It returns INVALID_INPUT if there are too many, or one names something
// else than an output.
func ValuesIn(prompt string, params json.RawMessage) (found []Result, err error) {
	note := func(field, in string) string {
		for _, match := range placeholder.FindAllStringSubmatch(in, -1) {
			r, bad := reference.Parse(match[1])
			switch {
			case err != nil:
			case bad != nil:
				err = apierror.Invalid(field, "%s: the placeholder %s %s.", field, text.Clip(match[0], 100), bad)
			case !r.Take.OfOutput():
				err = apierror.Invalid(field, "%s: the placeholder %s is a file, and a text contains values of outputs: write {{%s.output}}.", field,
					text.Clip(match[0], 100), r.Job)
			default:
				found = append(found, Result{Job: r.Job, Field: field, Take: r.Take})
			}
		}
		return in
	}
	if mayHavePlaceholders(prompt) {
		note("prompt", prompt)
	}
	if mayHavePlaceholders(params) {
		eachText("params", decodeParams(params), note)
	}
	if err == nil && len(found) > maxPlaceholders {
		err = apierror.Invalid(found[maxPlaceholders].Field, "The prompt and the params contain %d values of other jobs; a job may have %d.",
			len(found), maxPlaceholders)
	}
	return found, err
}

// decodeParams decodes valid params. Numbers stay as they are written.
func decodeParams(params json.RawMessage) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber()
	_ = decoder.Decode(&value) // it was made from a value
	return value
}

// eachText replaces each string of a JSON value, in a fixed order, by what replace returns for
// its place and itself. Keys are left as they are.
func eachText(place string, value any, replace func(place, text string) string) any {
	switch v := value.(type) {
	case string:
		return replace(place, v)
	case []any:
		for i := range v {
			v[i] = eachText(place+"."+strconv.Itoa(i), v[i], replace)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = eachText(place+"."+name, v[name], replace)
		}
	}
	return value
}

// Values are values of outputs, for the texts of one job.
type Values map[models.OutputValue]string

// ReadValues returns the values that the texts of a job contain.
func ReadValues(ctx context.Context, db bun.IDB, job models.JobID) (Values, error) {
	values, err := models.ReadOutputs(ctx, db, job)
	return values, apierror.Wrap(err, "read the outputs that job %s takes", job)
}

// Fill replaces the placeholders in a text. One whose value does not exist stays: that it exists
// was checked before the job could be leased.
func (v Values) Fill(in string) string {
	return placeholder.ReplaceAllStringFunc(in, func(match string) string {
		r, err := reference.Parse(match[2 : len(match)-2])
		if value, known := v[models.OutputValue{JobID: r.Job, Take: string(r.Take)}]; known && err == nil {
			return value
		}
		return match
	})
}

// FillPrompt returns the prompt of a leased job with the values that it contains.
func FillPrompt(ctx context.Context, db bun.IDB, job models.JobID, prompt string) (string, error) {
	if !mayHavePlaceholders(prompt) {
		return prompt, nil
	}
	values, err := ReadValues(ctx, db, job)
	return values.Fill(prompt), err
}

// FillParams returns the params of a leased job with the values that they contain.
func FillParams(ctx context.Context, db bun.IDB, job *models.Job) (json.RawMessage, error) {
	if !mayHavePlaceholders(job.Params) {
		return job.Params, nil
	}
	values, err := ReadValues(ctx, db, job.ID)
	if err != nil {
		return nil, err
	}
	filled, err := json.Marshal(eachText("", decodeParams(job.Params), func(_, text string) string { return values.Fill(text) }))
	return filled, apierror.Wrap(err, "encode the params of job %s", job.ID)
}
