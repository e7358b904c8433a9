package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Common are the settings that video services have in common, and that models call by several names.
// Nil and empty ones are left to the model.
type Common struct {
	// DurationSeconds and Seed are numbers of JSON.
	DurationSeconds, Seed json.Number
	// Resolution is such as 720p, or a size such as 1280x720; AspectRatio such as 16:9.
	Resolution, AspectRatio string
	NegativePrompt          *string
	// Image is what a job starts from: a reference of a file, such as a URL.
	Image string
}

// Way is one way to express a setting: parameters by name.
type Way map[string]any

// The names by which models know the settings, the first ones first.
var (
	lengthNames   = []string{"durationSeconds", "duration_seconds", "duration", "seconds"}
	aspectNames   = []string{"aspectRatio", "aspect_ratio", "ratio"}
	negativeNames = []string{"negativePrompt", "negative_prompt"}
	sizeNames     = []string{"resolution", "size", "width", "height", "ratio"}
)

// LengthWays returns the ways to express the length of a video.
func LengthWays(seconds json.Number) (ways []Way) {
	for _, name := range lengthNames {
		ways = append(ways, Way{name: seconds}, Way{name: seconds.String()}, Way{name: seconds.String() + "s"})
	}
	return ways
}

// SizeWays returns the ways to express a size in pixels: the shorter side and the aspect ratio, if these
// are exact, or the pixels.
func SizeWays(width, height int) (ways []Way) {
	shorter, divisor := min(width, height), gcd(width, height)
	if slices.Contains(usualSides, shorter) {
		for _, name := range aspectNames {
			for _, resolution := range cases(fmt.Sprint(shorter, "p")) {
				ways = append(ways, Way{"resolution": resolution, name: fmt.Sprint(width/divisor, ":", height/divisor)})
			}
		}
	}
	for _, name := range []string{"size", "resolution"} {
		ways = append(ways, Way{name: fmt.Sprint(width, "x", height)}, Way{name: fmt.Sprint(width, "*", height)})
	}
	return append(ways, Way{"width": width, "height": height}, Way{"ratio": fmt.Sprint(width, ":", height)})
}

// usualSides are shorter sides by which resolutions are named.
var usualSides = []int{360, 480, 512, 540, 576, 720, 768, 1080, 1440, 2160}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// cases returns a resolution in the spellings of models: 720p, 720P.
func cases(resolution string) []string {
	return slices.Compact([]string{resolution, strings.ToLower(resolution), strings.ToUpper(resolution)})
}

// Fit returns the first way whose parameters the model has and whose values it takes, or nil.
func (m *Model) Fit(ways []Way) Way {
	i := slices.IndexFunc(ways, func(w Way) bool {
		for name, value := range w {
			if m.refuses(name, value) != nil {
				return false
			}
		}
		return true
	})
	if i < 0 {
		return nil
	}
	return ways[i]
}

var errNoParam = errors.New("there is no such parameter")

// refuses returns why the model does not take a value of one parameter.
func (m *Model) refuses(name string, value any) error {
	property := m.compiled.Properties[name]
	if property == nil {
		return errNoParam
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return property.Validate(read)
}

// Express returns the parameters of the model for the settings, and by the name of each parameter the
// setting that it expresses. It returns INVALID_INPUT, with the setting's name in lower camel case, for
// one that the model does not have or whose value it does not take.
func (m *Model) Express(c Common) (params map[string]any, from map[string]string, err error) {
	params, from = map[string]any{}, map[string]string{}
	size, aspect, err := c.sizeWays()
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []struct {
		field string
		value any // nil if it was not asked for
		names []string
		ways  []Way
	}{
		{"durationSeconds", known(c.DurationSeconds), lengthNames, LengthWays(c.DurationSeconds)},
		{"resolution", known(c.Resolution), sizeNames, size},
		{"aspectRatio", known(c.AspectRatio), aspectNames, aspect},
		{"seed", known(c.Seed), []string{"seed"}, []Way{{"seed": c.Seed}}},
		{"negativePrompt", knownText(c.NegativePrompt), negativeNames, waysOf(negativeNames, knownText(c.NegativePrompt))},
		{"imageUrl", known(c.Image), m.imageParams(), imageWays(m.imageParams(), c.Image)},
	} {
		if s.value == nil || s.field == "aspectRatio" && c.Resolution != "" && sized(params) {
			continue
		}
		way := m.Fit(s.ways)
		if way == nil {
			return nil, nil, m.unfit(s.field, s.value, s.names, s.ways)
		}
		for name, value := range way {
			params[name], from[name] = value, s.field
		}
	}
	return params, from, nil
}

// sized reports whether params express a size with its aspect ratio.
func sized(params map[string]any) bool {
	resolution, _ := params["resolution"].(string)
	for _, name := range append([]string{"size", "width"}, aspectNames...) {
		if _, ok := params[name]; ok {
			return true
		}
	}
	return strings.ContainsAny(resolution, "x*")
}

func known[T ~string](value T) any {
	if value == "" {
		return nil
	}
	return value
}

func knownText(value *string) any {
	if value == nil {
		return nil
	}
	return *value
}

func waysOf(names []string, value any) (ways []Way) {
	for _, name := range names {
		ways = append(ways, Way{name: value})
	}
	return ways
}

var (
	sizeForm   = regexp.MustCompile(`^([1-9][0-9]{0,4})[xX*×]([1-9][0-9]{0,4})$`)
	sideForm   = regexp.MustCompile(`^([1-9][0-9]{1,4})[pP]$`)
	aspectForm = regexp.MustCompile(AspectForm)
)

// AspectForm is a regular expression for aspect ratios.
const AspectForm = `^([1-9][0-9]{0,3}):([1-9][0-9]{0,3})$`

// sizeWays returns the ways to express the resolution, some with the aspect ratio, and the aspect ratio alone.
func (c Common) sizeWays() (size, aspect []Way, err error) {
	aspect = waysOf(aspectNames, c.AspectRatio)
	w, h := 16, 9
	if parts := aspectForm.FindStringSubmatch(c.AspectRatio); parts != nil {
		w, _ = strconv.Atoi(parts[1])
		h, _ = strconv.Atoi(parts[2])
	} else if c.AspectRatio != "" {
		return nil, nil, apierror.Invalid("aspectRatio", "aspectRatio must be width:height, such as 16:9; it is %q.", short(c.AspectRatio))
	}
	if parts := sizeForm.FindStringSubmatch(c.Resolution); parts != nil {
		width, _ := strconv.Atoi(parts[1])
		height, _ := strconv.Atoi(parts[2])
		if c.AspectRatio != "" && width*h != height*w {
			return nil, nil, apierror.Invalid("aspectRatio", "aspectRatio is %s, and resolution is %s: leave out one of them.", c.AspectRatio,
				c.Resolution)
		}
		return SizeWays(width, height), aspect, nil
	}
	for _, resolution := range cases(c.Resolution) {
		size = append(size, Way{"resolution": resolution})
	}
	if parts := sideForm.FindStringSubmatch(c.Resolution); parts != nil {
		side, _ := strconv.Atoi(parts[1])
		longer := (side*max(w, h)/min(w, h) + 1) / 2 * 2 // even, as codecs need it
		if w < h {
			size = append(size, SizeWays(side, longer)...)
		} else {
			size = append(size, SizeWays(longer, side)...)
		}
	}
	return size, aspect, nil
}

// imageParams returns the names of the parameters that take an image: the one that is called
// referenceImage, or all others.
func (m *Model) imageParams() (names []string) {
	for _, in := range m.inputs {
		if m.Takes(in.name) && slices.Contains(in.kinds, InputImage) {
			if in.name == ReferenceImage {
				return []string{in.name}
			}
			names = append(names, in.name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return firstImage(a) - firstImage(b) })
	return names
}

// firstImages are the names by which models know the image with which a video begins.
var firstImages = []string{"image", "imageUrl", "image_url", "promptImage", "prompt_image", "firstFrame", "first_frame", "first_frame_image",
	"startImage", "start_image"}

// firstImage orders names: those of first images come first.
func firstImage(name string) int {
	if i := slices.Index(firstImages, name); i >= 0 {
		return i
	}
	return len(firstImages)
}

func imageWays(names []string, image string) (ways []Way) {
	for _, name := range names {
		ways = append(ways, Way{name: image}, Way{name: []string{image}})
	}
	return ways
}

// unfit returns the error for a setting that the model does not take, with what it takes.
func (m *Model) unfit(field string, value any, names []string, ways []Way) error {
	for _, way := range ways {
		if len(way) > 1 {
			continue
		}
		for name, value := range way {
			failed := (*jsonschema.ValidationError)(nil)
			if !errors.As(m.refuses(name, value), &failed) {
				continue
			}
			for len(failed.Causes) > 0 {
				failed = likeliest(failed)
			}
			return apierror.Invalid(field, "The model %s does not take this %s: its parameter %s %s.", m.Name, field, name,
				text.Clip(bound(failed.ErrorKind), 300))
		}
	}
	takes := "It has no parameters."
	if all := slices.Sorted(maps.Keys(m.compiled.Properties)); len(all) > 0 {
		takes = "Its parameters are " + text.Clip(strings.Join(all, ", "), 500) + "."
	}
	if slices.ContainsFunc(names, m.Takes) {
		return apierror.Invalid(field, "The model %s cannot make %s %q. %s", m.Name, field, short(fmt.Sprint(value)), takes)
	}
	return apierror.Invalid(field, "The model %s has no parameter for %s. %s", m.Name, field, takes)
}

func short(s string) string { return text.Clip(text.Printable(s), 40) }
