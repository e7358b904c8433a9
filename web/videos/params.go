package videos

import (
	"errors"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/web/door"
)

// paramsParam has the parameters of the model that OpenAI's API has no names for. It is an addition
// of this server's: the official packages send it as extra_body.
const paramsParam = "params"

// reuseParam accepts the result of an equal job. It is an addition of this server's, too.
const reuseParam = "reuse"

// readReuse reads reuse: true or false, and in a multipart body also its text.
func (f fields) readReuse() (bool, error) {
	switch value := f[reuseParam].(type) {
	case nil:
		return false, nil
	case bool:
		return value, nil
	case string:
		if f.isForm() && (value == "true" || value == "false") {
			return value == "true", nil
		}
	}
	return false, errType(reuseParam, "a boolean", f[reuseParam])
}

// extras are the parameters of the model in a request, by the model's own names.
type extras struct {
	values map[string]any
	form   bool // all of them are texts
}

// readExtras reads params: an object, or in a multipart body also the text of one.
func (f fields) readExtras() (*extras, error) {
	switch value := f[paramsParam].(type) {
	case nil:
		return &extras{}, nil
	case fields:
		e := &extras{form: f.isForm()}
		var err error
		e.values, err = plain(paramsParam, value)
		return e, err
	case string:
		raw, err := door.ReadJSON(strings.NewReader(value))
		if err != nil || !f.isForm() {
			return nil, errType(paramsParam, "an object", value)
		}
		inner, err := readJSON(strings.NewReader(string(raw)))
		if err != nil {
			return nil, errType(paramsParam, "an object", value)
		}
		e := &extras{}
		e.values, err = plain(paramsParam, inner)
		return e, err
	default:
		return nil, errType(paramsParam, "an object", value)
	}
}

// isForm reports whether the fields are those of a multipart body.
func (f fields) isForm() bool {
	_, form := f[formMark]
	return form
}

// plain returns fields as what JSON decodes to.
func plain(place string, f fields) (map[string]any, error) {
	all := map[string]any{}
	for name, value := range f {
		switch v := value.(type) {
		case *file:
			return nil, errType(door.Clip(place+"."+name), "a value", value)
		case fields:
			inner, err := plain(place+"."+name, v)
			if err != nil {
				return nil, err
			}
			all[name] = inner
		default:
			all[name] = v
		}
	}
	return all, nil
}

// of returns the values in the types of the model.
func (e *extras) of(model *catalogue.Model) map[string]any {
	if e.form {
		return model.FromForm(e.values)
	}
	return e.values
}

// has reports whether one of the parameters is among the extras.
func (e *extras) has(names ...string) bool {
	for _, name := range names {
		if _, given := e.values[name]; given {
			return true
		}
	}
	return false
}

// refuse returns the error of a submit with the name of the extra parameter that it is about.
func (e *extras) refuse(err error) error {
	var known *apierror.Error
	if errors.As(err, &known) && known.Code == apierror.CodeInvalidInput {
		inner, ok := strings.CutPrefix(known.Field, "params.")
		name, _, _ := strings.Cut(inner, ".")
		if ok && e.has(name) {
			return invalid(string(kinds[known.Code].code), known.Field, "%s", known.Message)
		}
	}
	return err
}

func errSame(param, name string) error {
	return invalid("invalid_value", paramsParam+"."+name, "'%s' and '%s.%s' are the same parameter: send one of them.", param, paramsParam,
		name)
}
