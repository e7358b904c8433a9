// Package hostedengine reads the settings of models that hosted providers render: how the parameters of a
// job become the fields of a request.
package hostedengine

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/provider"
)

// Settings are those of a model of a provider.
type Settings struct {
	// Model is the provider's name of the model.
	Model string `json:"model"`
	// Fields says into which place of the request a parameter goes, beside the provider's usual ones; ""
	// leaves it out. See provider.Adapter.
	Fields map[string]string `json:"fields"`
	// Fixed are places of the request with the same value in each one.
	Fixed map[string]any `json:"fixed"`
}

const (
	maxFields = 50
	maxModel  = 200 // bytes
)

var (
	validModel = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)
	validPlace = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`)
)

// forbidden are parts of places with which a request would name addresses to call, or another model.
var forbidden = []string{"model", "model_name", "callback_url", "webhook", "webhook_url", "webhook_config", "external_task_id", bucket}

// bucket is the part of a place that names where results are written. Only what is fixed has it, and only for a
// bucket: who submits a job does not choose.
const bucket = "storageUri"

// Parse reads and checks settings, and fills in the provider's usual fields. params are the names of the
// model's parameters, or nil if they are not known.
func Parse(a *provider.Adapter, data json.RawMessage, params []string) (*Settings, error) {
	s := &Settings{}
	if err := engine.Decode(engine.Kind(a.Name), "model, fields and fixed", data, s); err != nil {
		return nil, err
	}
	switch {
	case s.Model == "" && a.OneModel:
	case s.Model == "":
		return nil, engine.Problemf(".model", "settings.model is missing: write %s's own name of the model", a.Title)
	case len(s.Model) > maxModel || !validModel.MatchString(s.Model) || strings.Contains(s.Model, "..") || strings.Contains(s.Model, "//"):
		return nil, engine.Problemf(".model", "model has up to %d letters, digits and . _ : / -", maxModel)
	case len(s.Fields) > maxFields || len(s.Fixed) > maxFields:
		return nil, engine.Problemf("", "fields and fixed may have %d entries each", maxFields)
	}
	for _, param := range slices.Sorted(maps.Keys(s.Fields)) {
		if !engine.ValidName(param) || params != nil && !slices.Contains(params, param) {
			return nil, engine.Problemf(".fields", "fields has %.80q, which is no parameter of the model", param)
		}
		if problem := checkPlace(s.Fields[param]); s.Fields[param] != "" && problem != "" {
			return nil, engine.Problemf(".fields."+param, "fields.%s %s", param, problem)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(s.Fixed)) {
		if uri, ok := s.Fixed[place].(string); ok && place == "parameters."+bucket && strings.HasPrefix(uri, "gs://") {
			continue
		}
		if problem := checkPlace(place); problem != "" || strings.Contains(place, "=") {
			return nil, engine.Problemf(".fixed", "fixed %s", problem)
		}
	}
	usual := maps.Clone(a.Fields)
	if usual == nil {
		usual = map[string]string{}
	}
	maps.Copy(usual, s.Fields)
	s.Fields = usual
	return s, nil
}

func checkPlace(field string) string {
	place, format, _ := strings.Cut(field, "=")
	parts := strings.Split(place, ".")
	switch {
	case !validPlace.MatchString(place):
		return "must be names with dots between them, such as settings.duration, and may end with = and a format"
	case strings.Count(format, "%") > 1 || strings.Contains(format, "%") && !strings.Contains(format, "%s"):
		return "has a format that is not base64, or a text with one %s"
	}
	for _, part := range parts {
		if slices.Contains(forbidden, part) {
			return "has the part " + part + ": no request may name the model, addresses or ids of its own"
		}
	}
	return ""
}
