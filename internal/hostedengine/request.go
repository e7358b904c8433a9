package hostedengine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/provider"
)

// Request makes the request of a job. It has the prompt, the parameters that the settings map, the files, by parameter, and
// what the settings fix: nothing else of the customer's.
func Request(a *provider.Adapter, s *Settings, task provider.Task, params map[string]any, files map[string]provider.File) *provider.Request {
	r := &provider.Request{Task: task, Body: []byte("{}"), Files: files}
	for _, place := range slices.Sorted(maps.Keys(s.Fixed)) {
		r.Set(place, s.Fixed[place])
	}
	if a.Model != "" {
		r.Set(a.Model, s.Model)
	}
	if a.Prompt != "" {
		r.Set(a.Prompt, task.Prompt)
	}
	for _, param := range slices.Sorted(maps.Keys(params)) {
		value, field := params[param], s.Fields[param]
		if field == "" || value == nil {
			continue
		}
		place, format, formatted := strings.Cut(field, "=")
		if file, isFile := files[param]; isFile {
			value = file.Encode(format)
		} else if formatted {
			value = strings.Replace(format, "%s", fmt.Sprint(value), 1)
		}
		r.Set(place, value)
	}
	return r
}

// Ask returns what the submit of a job with these parameters asks of the provider, as far as it is billed by that. model is
// Reelay's name of the model, which counts where settings have none. Of params, the values of files do not matter.
func Ask(a *provider.Adapter, settings json.RawMessage, model string, params map[string]any) (provider.Asked, error) {
	s, err := Parse(a, settings, nil)
	if err != nil {
		return provider.Asked{}, err
	}
	call, err := a.Submit(Request(a, s, provider.Task{Model: s.Model}, params, nil))
	if err != nil {
		return provider.Asked{}, err
	}
	return a.ReadAsked(s.PricedAs(model), call.Body), nil
}

// PricedAs returns the name of the model in the price book: the provider's, or that of Reelay's model if the provider has
// none, since its address says which model it is.
func (s *Settings) PricedAs(model string) string {
	if s.Model == "" {
		return model
	}
	return s.Model
}
