package comfy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/engine"
)

// Imported is a catalogue entry that is proposed for a graph.
type Imported struct {
	Name   string
	Graph  Graph
	Output string // the node whose file is the result, or ""
	Image  bool   // the result is an image
	Params []Param
	// Notes are what the author of the entry should know.
	Notes []string
}

// Param is a proposed parameter. The one named prompt is the job's prompt.
type Param struct {
	Name     string
	Targets  Targets
	Schema   Property
	Required bool
}

// Property is the JSON Schema of a parameter.
type Property struct {
	Description string      `json:"description,omitempty"`
	Type        string      `json:"type,omitempty"`
	Input       string      `json:"x-reelay-input,omitempty"`
	Enum        []any       `json:"enum,omitempty"`
	Minimum     json.Number `json:"minimum,omitempty"`
	Maximum     json.Number `json:"maximum,omitempty"`
	MaxLength   int         `json:"maxLength,omitempty"`
	Default     any         `json:"default,omitempty"`
}

// importer proposes an entry.
type importer struct {
	*Imported
	classes map[string]*Class
}

// Import proposes an entry for a graph. output is the node whose file is the result, or "".
// classes are what an engine says of the graph's classes: nil for one that it lacks. Without an
// engine, classes is nil.
//
// Amounts that cost time, such as frames and steps, may be up to twice what the graph has: that is
// what is known to fit the GPU, and some room.
func Import(data []byte, name, output string, classes map[string]*Class) (*Imported, error) {
	graph, err := ParseGraph(data)
	if err != nil {
		return nil, err
	}
	im := &importer{&Imported{Name: name, Graph: graph}, classes}
	if err := im.findOutput(output); err != nil {
		return nil, err
	}
	im.findTitles()
	im.findTexts()
	im.findSeeds()
	im.findSize()
	im.findLength()
	im.findSteps()
	im.findFiles()
	im.findLacks()
	return im.Imported, nil
}

func (im *importer) note(format string, args ...any) {
	im.Notes = append(im.Notes, fmt.Sprintf(format, args...))
}

// makesVideo matches classes that save a video.
var makesVideo = regexp.MustCompile(`(?i)video|webm|vhs_`)

func (im *importer) findOutput(output string) error {
	var savers, videos []string
	for _, id := range im.Graph.Sorted() {
		node := im.Graph[id]
		if _, saves := node.Inputs[Prefix]; !saves {
			continue
		}
		savers = append(savers, id)
		if makesVideo.MatchString(node.Class) {
			videos = append(videos, id)
		}
	}
	switch {
	case len(savers) == 0:
		return engine.Problemf("", "no node of the graph saves a file: add one such as SaveVideo")
	case output != "" && !slices.Contains(savers, output):
		return engine.Problemf("", "the node %.70q saves no file: these do: %s", output, strings.Join(savers, ", "))
	case output != "":
		im.Output = output
	case len(videos) == 1:
		im.Output = videos[0]
	case len(savers) == 1:
		im.Output = savers[0]
	default:
		im.note("The nodes %s save files. The result is the first video: set output to choose one.", strings.Join(savers, ", "))
	}
	if im.Output != "" {
		im.Image = !slices.Contains(videos, im.Output)
	} else {
		im.Image = len(videos) == 0
	}
	return nil
}

// settable returns the input that a value comes from: the one itself, or that of a node of one
// value, such as PrimitiveInt, to which it is linked.
func (im *importer) settable(id, input string) (Target, any, bool) {
	value, ok := im.Graph[id].Inputs[input]
	if !ok {
		return Target{}, nil, false
	}
	from, linked := Link(value)
	if !linked {
		_, list := value.([]any)
		_, object := value.(map[string]any)
		return Target{Node: id, Input: input}, value, !list && !object && input != Prefix
	}
	inputs := im.Graph[from].Inputs
	if _, saves := inputs[Prefix]; saves || len(inputs) != 1 {
		return Target{}, nil, false
	}
	for name, inner := range inputs {
		switch inner.(type) {
		case string, json.Number, bool:
			return Target{Node: from, Input: name}, inner, true
		}
	}
	return Target{}, nil, false
}

// spec is what the engine says of an input.
func (im *importer) spec(t Target) Input {
	if class := im.classes[im.Graph[t.Node].Class]; class != nil {
		return class.Inputs[t.Input]
	}
	return Input{}
}

// taken reports whether a parameter sets an input.
func (im *importer) taken(t Target) bool {
	return slices.ContainsFunc(im.Params, func(p Param) bool {
		return slices.ContainsFunc(p.Targets, func(has Target) bool { return has.Node == t.Node && has.Input == t.Input })
	})
}

func (im *importer) has(name string) bool {
	return slices.ContainsFunc(im.Params, func(p Param) bool { return p.Name == name })
}

// add adds a parameter unless it has no targets, or a title declared one of its name.
func (im *importer) add(name string, schema Property, targets ...Target) {
	targets = slices.DeleteFunc(slices.Compact(targets), im.taken)
	if len(targets) > 0 && !im.has(name) {
		im.Params = append(im.Params, Param{Name: name, Targets: targets, Schema: schema, Required: schema.Input != ""})
	}
}

// found is an input of which a parameter can be made.
type found struct {
	Target
	value any
}

// all returns the inputs of some names that have a value of a kind, in the order of the nodes.
func (im *importer) all(names []string, keep func(node *Node, value any) bool) []found {
	var list []found
	for _, id := range im.Graph.Sorted() {
		for _, name := range names {
			t, value, ok := im.settable(id, name)
			if ok && keep(im.Graph[id], value) && !slices.ContainsFunc(list, func(f found) bool { return f.Target == t }) {
				list = append(list, found{t, value})
			}
		}
	}
	return list
}

func numeric(_ *Node, value any) bool { _, ok := value.(json.Number); return ok }

// same returns the targets whose value is that of the first, and notes the others.
func (im *importer) same(name string, list []found) []Target {
	var targets []Target
	for _, f := range list {
		if f.value == list[0].value {
			targets = append(targets, f.Target)
		} else if !im.taken(f.Target) {
			im.note("%s does not set %s, which is %v and not %v.", name, f.Target, f.value, list[0].value)
		}
	}
	return targets
}

const (
	maxExact = 1<<53 - 1 // the largest whole number that every program reads exactly
	maxText  = 2000
)

// amount is the schema of a number of which more takes longer.
func (im *importer) amount(about string, f found) Property {
	p := Property{Description: about, Type: "integer", Minimum: "1", Default: f.value}
	value, _ := f.value.(json.Number).Float64()
	if value != math.Trunc(value) {
		p.Type = "number"
	}
	spec := im.spec(f.Target)
	if least, err := spec.Min.Float64(); err == nil && least > 0 && least <= value {
		p.Minimum = spec.Min
	} else if value < 1 {
		p.Minimum = "0"
	}
	p.Maximum = decimal(2 * value)
	if most, err := spec.Max.Float64(); err == nil && most < 2*value {
		p.Maximum = spec.Max
	}
	return p
}

func decimal(n float64) json.Number { return json.Number(strconv.FormatFloat(n, 'f', -1, 64)) }

func (im *importer) findSeeds() {
	seeds := im.all([]string{"seed", "noise_seed"}, numeric)
	if len(seeds) == 0 {
		return
	}
	p := Property{
		Description: "Another seed makes another result.", Type: "integer",
		Minimum: "0", Maximum: decimal(maxExact), Default: seeds[0].value,
	}
	if most, err := im.spec(seeds[0].Target).Max.Float64(); err == nil && most < maxExact {
		p.Maximum = im.spec(seeds[0].Target).Max
	}
	if n, err := seeds[0].value.(json.Number).Float64(); err != nil || n < 0 || n > maxExact {
		p.Default = json.Number("0")
	}
	var targets []Target
	for _, seed := range seeds {
		targets = append(targets, seed.Target)
	}
	im.add("seed", p, targets...)
}

// counts are inputs with which a node makes something of a size, and does not only resize it.
var counts = []string{"batch_size", "length", "num_frames", "frames", "video_frames", "frame_count"}

func (im *importer) findSize() {
	makes := func(n *Node, value any) bool {
		_, width := n.Inputs["width"]
		_, height := n.Inputs["height"]
		counted := slices.ContainsFunc(counts, func(name string) bool { _, ok := n.Inputs[name]; return ok })
		return width && height && counted && numeric(n, value)
	}
	for _, name := range []string{"width", "height"} {
		if list := im.all([]string{name}, makes); len(list) > 0 {
			im.add(name, im.amount(strings.ToUpper(name[:1])+name[1:]+" in pixels.", list[0]), im.same(name, list)...)
		}
	}
}

// findLength proposes durationSeconds if the graph says how many frames a second has, or else the
// number of frames.
func (im *importer) findLength() {
	names := counts[1:]
	if slices.ContainsFunc(im.Graph.Sorted(), func(id string) bool { return strings.HasPrefix(im.Graph[id].Class, "ADE_") }) {
		names = append([]string{"batch_size"}, names...) // AnimateDiff makes a video of a batch
	}
	frames := im.all(names, func(n *Node, value any) bool { return numeric(n, value) && value != json.Number("1") })
	if len(frames) == 0 || im.Image {
		return
	}
	rates := im.all([]string{"fps", "frame_rate"}, numeric)
	targets := im.same("The length", frames)
	count, _ := frames[0].value.(json.Number).Float64()
	rate := 0.0
	if len(rates) > 0 {
		rate, _ = rates[0].value.(json.Number).Float64()
	}
	if rate <= 0 || im.taken(rates[0].Target) {
		im.add("frames", im.amount("Number of frames.", frames[0]), targets...)
		im.note("No node says how many frames a second has: add durationSeconds by hand, or the length of videos is unknown to Reelay.")
		return
	}
	plus := 0.0
	if math.Mod(count-1, 4) == 0 {
		plus = 1 // such models make a multiple of 4, and one
	}
	for i := range targets {
		targets[i].Times, targets[i].Plus = rate, plus
	}
	seconds := func(frames float64) float64 { return math.Round((frames-plus)/rate*1000) / 1000 }
	p := Property{Description: fmt.Sprintf("The length of the video, at %v frames a second.", rates[0].value), Type: "number",
		Minimum: decimal(min(0.5, seconds(count))), Maximum: decimal(2 * seconds(count)), Default: decimal(seconds(count))}
	if most, err := im.spec(frames[0].Target).Max.Float64(); err == nil && seconds(most) < 2*seconds(count) {
		p.Maximum = decimal(seconds(most))
	}
	im.add("durationSeconds", p, targets...)
}

func (im *importer) findSteps() {
	split := false
	list := im.all([]string{"steps"}, func(n *Node, value any) bool {
		if start, ok := n.Inputs["start_at_step"]; ok && start != json.Number("0") {
			split = true
		}
		return numeric(n, value)
	})
	switch {
	case split:
		im.note("Several samplers share the steps: steps is no parameter, " +
			"since start_at_step and end_at_step would have to change with it.")
	case len(list) > 0:
		im.add("steps", im.amount("Denoising steps: more take longer.", list[0]), im.same("steps", list)...)
	}
}

// loaders are classes that load a file of the customer's, with the input that names it.
var loaders = []struct{ class, input, kind string }{
	{"LoadImage", "image", "image"}, {"LoadImageMask", "image", "image"},
	{"LoadVideo", "file", "video"}, {"VHS_LoadVideo", "video", "video"}, {"VHS_LoadVideoFFmpeg", "video", "video"},
	{"LoadAudio", "audio", "audio"}, {"VHS_LoadAudioUpload", "audio", "audio"},
}

func (im *importer) findFiles() {
	number := map[string]int{}
	for _, id := range im.Graph.Sorted() {
		for _, l := range loaders {
			t := Target{Node: id, Input: l.input}
			value, isText := im.Graph[id].Inputs[l.input].(string)
			if im.Graph[id].Class != l.class || !isText || im.taken(t) || value == "" {
				continue
			}
			name := map[string]string{"image": "referenceImage", "video": "video", "audio": "audio"}[l.kind]
			if number[l.kind]++; number[l.kind] > 1 {
				name = l.kind + strconv.Itoa(number[l.kind])
			}
			im.add(name, Property{Description: im.about(t, "The "+l.kind+" of the node "+id+"."), Type: "string", Input: l.kind}, t)
		}
	}
}

// about returns the title that the author gave a node, or else a text.
func (im *importer) about(t Target, other string) string {
	node := im.Graph[t.Node]
	if node.Meta == nil || node.Meta.Title == "" || strings.EqualFold(strings.ReplaceAll(node.Meta.Title, " ", ""), node.Class) {
		return other
	}
	return clip(node.Meta.Title, 200)
}

func clip(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return text
}

// findLacks notes what the engine does not have.
func (im *importer) findLacks() {
	if im.classes == nil {
		im.note("Minimum, maximum and lists come from the values of the graph alone: --engine URL takes them from an engine.")
		return
	}
	for _, id := range im.Graph.Sorted() {
		node := im.Graph[id]
		class := im.classes[node.Class]
		if class == nil {
			im.note("The engine has no node %s (node %s): install it there.", node.Class, id)
			continue
		}
		for _, input := range slices.Sorted(maps.Keys(node.Inputs)) {
			value, isText := node.Inputs[input].(string)
			spec := class.Inputs[input]
			if isText && spec.Kind == List && !slices.Contains(spec.Values, any(value)) && !im.taken(Target{Node: id, Input: input}) {
				im.note("The engine does not have %s = %s (node %s, %s).", input, clip(strconv.Quote(value), 100), id, node.Class)
			}
		}
	}
}

// property is the schema of an input that a title makes a parameter.
func (im *importer) property(t Target, value any) Property {
	spec := im.spec(t)
	p := Property{Description: clip(cmp.Or(spec.Tooltip, t.Input+" of the node "+t.Node+"."), 300), Default: value}
	switch v := value.(type) {
	case bool:
		p.Type = "boolean"
	case json.Number:
		p.Type = "number"
		if spec.Kind == "INT" {
			p.Type = "integer"
		}
		p.Minimum, p.Maximum = spec.Min, spec.Max
		if most, err := spec.Max.Float64(); err == nil && p.Type == "integer" && most > maxExact {
			p.Maximum = decimal(maxExact)
		}
	case string:
		p.Type, p.MaxLength = "string", maxText
		if spec.Kind == List {
			p.Type, p.MaxLength, p.Enum = "", 0, spec.Values
			if !slices.Contains(spec.Values, value) {
				p.Default = nil
			}
		} else if slices.Contains(weights, strings.ToLower(path.Ext(v))) {
			im.note("%s lets customers name files of the engine: list the allowed ones as an enum.", t)
		}
	}
	return p
}
