// Package videoengine reads the settings of models with the runtime videos-api: how the parameters
// of a job become the fields of a request to a server of OpenAI's Videos API.
package videoengine

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/engine"
)

// Settings are those of a model with the runtime videos-api.
type Settings struct {
	// Profile is the server: openai, vllm-omni, sglang or reelay. It decides the defaults of the others.
	Profile string `json:"profile"`
	// Model is the server's name of the model. It is sent only if it is set: a server with one
	// model needs none.
	Model string `json:"model"`
	// Request is the form of the request: form or json.
	Request string `json:"request"`
	// Cancel is delete if the server stops a job that is deleted, or none if it computes on.
	Cancel string `json:"cancel"`
	// Fields says into which field a parameter goes, beside the usual ones; "" leaves it out.
	Fields map[string]string `json:"fields"`
	// Fixed are fields with the same value in each request.
	Fixed map[string]any `json:"fixed"`
}

// The forms of a request, and what deleting a running job does.
const (
	Form     = "form"
	JSON     = "json"
	onDelete = "delete"
	never    = "none"
)

// Aborts reports whether the server stops a running job that is deleted.
func (s *Settings) Aborts() bool { return s.Cancel == onDelete }

// profile is what differs between servers.
type profile struct {
	request, cancel string
	fields          map[string]string
}

// usual are the fields of OpenAI's API.
var usual = map[string]string{"durationSeconds": "seconds", "size": "size", "referenceImage": "input_reference"}

// more are fields that servers of open models have besides.
var more = map[string]string{
	"seed": "seed", "steps": "num_inference_steps", "negativePrompt": "negative_prompt", "guidanceScale": "guidance_scale", "fps": "fps",
	"frames": "num_frames", "width": "width", "height": "height",
}

var profiles = map[string]profile{
	"openai":    {Form, never, usual},
	"reelay":    {Form, onDelete, union(usual, map[string]string{"seed": "seed"})},
	"vllm-omni": {Form, onDelete, union(usual, more)},
	"sglang":    {Form, never, union(usual, more)},
}

func union(all ...map[string]string) map[string]string {
	joined := map[string]string{}
	for _, m := range all {
		maps.Copy(joined, m)
	}
	return joined
}

// forbidden are fields with which a request would name files and addresses of the server, another
// model or another user.
var forbidden = []string{"model", "user", "prompt", "output_path", "perf_dump_path", "callback_url", "webhook_url"}

var validField = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

const (
	maxFields = 50
	maxModel  = 200 // bytes
)

// ParseSettings reads and checks settings, and fills in what the profile says. params are the names
// of the model's parameters, or nil if they are not known.
func ParseSettings(data json.RawMessage, params []string) (*Settings, error) {
	s := &Settings{}
	if err := engine.Decode(engine.VideosAPI, "profile, model, request, cancel, fields and fixed", data, s); err != nil {
		return nil, err
	}
	if s.Profile == "" {
		s.Profile = "openai"
	}
	p, ok := profiles[s.Profile]
	switch {
	case !ok:
		return nil, engine.Problemf(".profile", "there is no profile %.40q: the profiles are openai, vllm-omni, sglang and reelay; "+
			"for another server, set request, cancel and fields", s.Profile)
	case len(s.Model) > maxModel:
		return nil, engine.Problemf(".model", "model has over %d bytes", maxModel)
	case len(s.Fields) > maxFields || len(s.Fixed) > maxFields:
		return nil, engine.Problemf("", "fields and fixed may have %d entries each", maxFields)
	}
	if s.Request == "" {
		s.Request = p.request
	}
	if s.Cancel == "" {
		s.Cancel = p.cancel
	}
	if s.Cancel != onDelete && s.Cancel != never {
		return nil, engine.Problemf(".cancel",
			"cancel is %.40q: it must be delete, if the server stops a running job that is deleted, or none", s.Cancel)
	}
	if s.Request != Form && s.Request != JSON {
		return nil, engine.Problemf(".request", "request is %.40q: it must be form or json", s.Request)
	}
	for _, param := range slices.Sorted(maps.Keys(s.Fields)) {
		if !engine.ValidName(param) || params != nil && !slices.Contains(params, param) {
			return nil, engine.Problemf(".fields", "fields has %.80q, which is no parameter of the model", param)
		}
		if field := s.Fields[param]; field != "" {
			if err := checkField(field); err != nil {
				return nil, engine.Problemf(".fields."+param, "fields.%s %s", param, err)
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(s.Fixed)) {
		if err := checkField(field); err != nil {
			return nil, engine.Problemf(".fixed", "fixed %s", err)
		}
	}
	s.Fields = union(p.fields, s.Fields)
	return s, nil
}

func checkField(field string) error {
	switch {
	case !validField.MatchString(field):
		return fmt.Errorf("has the field %.80q: fields have lower-case letters, digits and underscores", field)
	case slices.Contains(forbidden, field) || strings.HasSuffix(field, "_path") || strings.HasSuffix(field, "_url"):
		return fmt.Errorf("has the field %s: no request may name files, addresses, users or models of a server; "+
			"model is a setting of its own", field)
	}
	return nil
}
