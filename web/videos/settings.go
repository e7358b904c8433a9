package videos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/web/door"
	"github.com/samber/lo"
)

// Models maps clients' names of models to the catalogue's. Names that it does not
// contain are the catalogue's own.
type Models map[string]string

// ReadModels reads a text such as "sora-2=testcard,sora-2-pro=wan".
func ReadModels(text string) (Models, error) {
	m := Models{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, target, ok := strings.Cut(pair, "=")
		name, target = strings.TrimSpace(name), strings.TrimSpace(target)
		switch {
		case !ok || name == "" || target == "" || len(name) > maxModelName:
			return nil, fmt.Errorf("%q is not of the form NAME=MODEL", door.Clip(pair))
		case m[name] != "":
			return nil, fmt.Errorf("%q occurs twice", door.Clip(name))
		}
		m[name] = target
	}
	return m, nil
}

const maxModelName = 128

// Unknown returns a target that is not a video model of the catalogue, or "".
func (m Models) Unknown(c *catalogue.Snapshot) string {
	for _, target := range m {
		if videoModel(c, target) == nil {
			return target
		}
	}
	return ""
}

// videoModel returns the model of that name, or one of an alias's models, if it makes a video
// from a prompt; otherwise nil.
func videoModel(c *catalogue.Snapshot, name string) *catalogue.Model {
	candidates, err := c.Candidates(name)
	if err != nil {
		return nil
	}
	for _, one := range candidates {
		if one.Model.Type != "video.generate" || !one.Model.RequiresVideo() {
			return nil
		}
	}
	return candidates[0].Model
}

// videoModels are the models and aliases that make a video from a prompt.
func videoModels(c *catalogue.Snapshot) []string {
	return slices.DeleteFunc(c.Names(), func(name string) bool { return videoModel(c, name) == nil })
}

// names are all names that a client can use: first those that are mapped, then the catalogue's in
// its order.
func (m Models) names(c *catalogue.Snapshot) []string {
	all := append(slices.Sorted(maps.Keys(m)), videoModels(c)...)
	return lo.Uniq(all)
}

// snapshot matches the date of a dated model name such as sora-2-2025-12-08.
var snapshot = regexp.MustCompile(`-20[0-9]{2}-[0-9]{2}-[0-9]{2}$`)

// find returns the model of a name, and the catalogue's name for it. A dated name means the
// same as the undated one.
func (m Models) find(c *catalogue.Snapshot, name string) (*catalogue.Model, string, error) {
	for _, known := range []string{name, snapshot.ReplaceAllString(name, "")} {
		target := cmp.Or(m[known], known)
		if model := videoModel(c, target); model != nil {
			return model, target, nil
		}
	}
	names := m.names(c)
	hint := cmp.Or(text.DidYouMean(name, names), ".")
	if len(names) > 0 && len(m) == 0 && strings.HasPrefix(name, "sora-") {
		hint = fmt.Sprintf(". This server gives no model of its own that name: use model='%s', or ask its operator to set REELAY_VIDEO_MODELS.",
			names[0])
	}
	return nil, "", invalid("model_not_found", "model", "The model '%s' does not exist here%s Supported models are: %s.", door.Clip(name),
		hint, strings.Join(names, ", "))
}

const (
	defaultModel   = "sora-2"
	defaultSeconds = "4"
	defaultSize    = "720x1280"
)

// The values that clients know.
var (
	knownSeconds = []string{"4", "8", "12", "16", "20"}
	knownSizes   = []string{"720x1280", "1280x720", "1024x1792", "1792x1024", "1080x1920", "1920x1080"}
)

// settings are the settings of a video, in the terms of clients and of the model.
type settings struct {
	Model, Seconds, Size string

	// target is the name in the catalogue, of a model or an alias; model is the model, or one of
	// the alias's.
	target string
	model  *catalogue.Model
	params map[string]any
}

// settle finds the model, and its parameters for the length and the size. An empty
// setting has the value that is among the extra parameters, the API's default or, if the model does
// not support that, the model's.
func (a *api) settle(c *call, name, seconds, size string, extra *extras) (*settings, error) {
	if name == "" {
		name = defaultModel
	}
	model, target, err := a.Models.find(a.known(c), name)
	if err != nil {
		return nil, err
	}
	s := &settings{Model: name, target: target, model: model, params: map[string]any{}}
	if seconds != "" || !extra.has("durationSeconds") {
		if s.Seconds, err = s.apply("seconds", seconds, defaultSeconds, knownSeconds, lengthParams); err != nil {
			return nil, err
		}
	}
	if size != "" || !extra.has("size", "resolution", "aspectRatio") {
		if s.Size, err = s.apply("size", size, defaultSize, knownSizes, sizeParams); err != nil {
			return nil, err
		}
	}
	return s, s.add(extra)
}

// add adds the extra parameters. None may be one of the API's own settings.
func (s *settings) add(extra *extras) error {
	for name, value := range extra.of(s.model) {
		if _, twice := s.params[name]; twice {
			return errSame(params["params."+name], name)
		}
		s.params[name] = value
	}
	return nil
}

// apply adds the parameters of one setting and returns its value.
func (s *settings) apply(param, value, usual string, known []string, spell func(string) []catalogue.Way) (string, error) {
	wanted := value
	if wanted == "" {
		wanted = usual
	}
	if fit := s.fitting(wanted, known, spell); fit != nil {
		maps.Copy(s.params, fit)
		return wanted, nil
	}
	if value == "" {
		return "", nil
	}
	var can []string
	for _, each := range known {
		if s.fitting(each, known, spell) != nil {
			can = append(can, "'"+each+"'")
		}
	}
	return "", invalid("invalid_value", param, "Invalid value: '%s'. %s", door.Clip(value), supported(can))
}

func supported(values []string) string {
	switch len(values) {
	case 0:
		return "This model has no such setting."
	case 1:
		return "The only supported value is: " + values[0] + "."
	}
	last := len(values) - 1
	return "Supported values are: " + strings.Join(values[:last], ", ") + ", and " + values[last] + "."
}

// fitting returns the first parameters for a known value that the model accepts, or nil.
func (s *settings) fitting(value string, known []string, spell func(string) []catalogue.Way) catalogue.Way {
	if !slices.Contains(known, value) {
		return nil
	}
	return s.model.Fit(spell(value))
}

func lengthParams(seconds string) []catalogue.Way { return catalogue.LengthWays(json.Number(seconds)) }

// sizeParams are the ways to express one of the known sizes.
func sizeParams(size string) []catalogue.Way {
	width, height, _ := strings.Cut(size, "x")
	w, _ := strconv.Atoi(width)
	h, _ := strconv.Atoi(height)
	return catalogue.SizeWays(w, h)
}
