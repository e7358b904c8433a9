package catalogue

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/reelay/reelay/internal/cogengine"
	"github.com/reelay/reelay/internal/comfy"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/program"
	"github.com/reelay/reelay/internal/videoengine"
)

// engineSettings are the checks of the settings of models that engines render, by the runtime.
// params are the names of the model's parameters, or nil if they are not known.
var engineSettings = map[engine.Kind]func(settings json.RawMessage, params []string) error{
	engine.ComfyUI:   only(comfy.ParseSettings),
	engine.VideosAPI: only(videoengine.ParseSettings),
	engine.Cog:       only(cogengine.ParseSettings),
}

// only returns a function that parses settings for its error alone.
func only[S any](parse func(json.RawMessage, []string) (S, error)) func(json.RawMessage, []string) error {
	return func(settings json.RawMessage, params []string) error {
		_, err := parse(settings, params)
		return err
	}
}

// checkSettings checks the settings of a model whose runtime is a part of Reelay.
func (s *Source) checkSettings(place string, m *Model) {
	if len(m.Settings) > 0 && m.Settings[0] != '{' {
		return // reported as such
	}
	if m.Runtime == program.Runtime {
		s.checkProgram(place, m)
		return
	}
	check := engineSettings[engine.Kind(m.Runtime)]
	if check == nil {
		return
	}
	var params []string // unknown if the schema is wrong
	if m.compiled != nil {
		params = slices.AppendSeq([]string{}, maps.Keys(m.compiled.Properties))
	}
	err := check(m.Settings, params)
	if p, ok := errors.AsType[*engine.Problem](err); ok {
		s.problem(place+p.Place, "%s", p.Text)
	} else if err != nil {
		s.problem(place, "%s", err)
	}
}

// checkProgram checks the settings of a model whose jobs a program does.
func (s *Source) checkProgram(place string, m *Model) {
	settings, found := program.Parse(m.Settings)
	if settings != nil && m.compiled != nil {
		found = append(found, settings.CheckParams(m.Takes)...)
	}
	for _, p := range found {
		s.problem(place+p.Place, "%s", p.Text)
	}
}
