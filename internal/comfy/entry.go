package comfy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// entry is an entry of the catalogue, as JSON and as the source of its YAML.
type entry struct {
	Name                string   `json:"name"`
	Type                string   `json:"type"`
	Description         string   `json:"description"`
	Runtime             string   `json:"runtime"`
	Settings            settings `json:"settings"`
	GPUTypes            []string `json:"gpuTypes"`
	Produces            string   `json:"produces"`
	RequiresPrompt      bool     `json:"requiresPrompt"`
	TimeoutSeconds      int      `json:"timeoutSeconds"`
	GPUSecondsPerSecond int      `json:"gpuSecondsPerSecond"`
	TimeDependsOn       []string `json:"timeDependsOn,omitempty"`
	Params              schema   `json:"params"`
}

type settings struct {
	Graph  Graph              `json:"graph"`
	Inputs map[string]Targets `json:"inputs"`
	Output string             `json:"output,omitempty"`
}

type schema struct {
	Type       string              `json:"type"`
	Additional bool                `json:"additionalProperties"`
	Required   []string            `json:"required,omitempty"`
	Properties map[string]Property `json:"properties"`
}

// timed are the parameters of an entry on which the time of a render depends, if it has them.
var timed = []string{"steps", "durationSeconds", "frames", "width"}

func (im *Imported) entry() entry {
	e := entry{
		Name: im.Name, Type: "video.generate", Runtime: "comfyui", GPUTypes: []string{"any"}, Produces: "video",
		Description: "A graph of ComfyUI.", TimeoutSeconds: 1800, GPUSecondsPerSecond: 30,
		Settings: settings{im.Graph, map[string]Targets{}, im.Output},
		Params:   schema{Type: "object", Properties: map[string]Property{}},
	}
	if im.Image {
		e.Produces = "image"
	}
	for _, p := range im.Params {
		e.Settings.Inputs[p.Name] = p.Targets
		if p.Name == "prompt" {
			e.RequiresPrompt = true
			continue
		}
		e.Params.Properties[p.Name] = p.Schema
		if p.Required {
			e.Params.Required = append(e.Params.Required, p.Name)
		}
	}
	for _, name := range timed {
		if p, ok := e.Params.Properties[name]; ok && (p.Type == "integer" || p.Type == "number") && p.Maximum != "" {
			e.TimeDependsOn = append(e.TimeDependsOn, name)
		}
	}
	return e
}

// JSON returns the entry as a file for `reelay models apply`.
func (im *Imported) JSON() ([]byte, error) {
	return json.MarshalIndent(map[string][]entry{"models": {im.entry()}}, "", "  ")
}

// YAML returns the entry as a file for `reelay models apply`, with comments.
func (im *Imported) YAML() []byte {
	e := im.entry()
	y := &yaml{}
	y.line("# A model of the runtime comfyui, made by reelay models import-comfyui. Read it, edit it, then:")
	y.line("#   reelay models diff -f FILE && reelay models apply -f FILE")
	for _, note := range im.Notes {
		y.line("# Note: %s", oneLine(note))
	}
	y.line("models:")
	y.line("  - name: %s", value(e.Name))
	y.line("    type: %s", e.Type)
	y.line("    description: %s", value(e.Description))
	y.line("    runtime: %s", e.Runtime)
	y.line("    settings:")
	y.line("      # Which inputs of nodes a parameter sets: NODE.INPUT. The parameter prompt is the job's prompt.")
	if slices.ContainsFunc(im.Params, func(p Param) bool { return p.Name == "durationSeconds" && p.Targets[0].Times != 0 }) {
		y.line("      # NODE.INPUT*24+1 sets a number of frames from seconds.")
	}
	if len(im.Params) == 0 {
		y.line("      inputs: {}")
	} else {
		y.line("      inputs:")
	}
	for _, p := range im.Params {
		y.line("        %s: %s", p.Name, value(p.Targets))
	}
	if im.Output != "" {
		y.line("      output: %s # the node whose file is the result", value(im.Output))
	}
	y.line("      graph:")
	for _, id := range im.Graph.Sorted() {
		y.line("        %s: %s", value(id), value(im.Graph[id]))
	}
	y.line("    gpuTypes: [any]")
	y.line("    produces: %s", e.Produces)
	y.line("    requiresPrompt: %t", e.RequiresPrompt)
	y.line("    timeoutSeconds: %d # the longest time of one attempt", e.TimeoutSeconds)
	y.line("    gpuSecondsPerSecond: %d # a first estimate: GPU seconds per second of video; measured times replace it",
		e.GPUSecondsPerSecond)
	if len(e.TimeDependsOn) > 0 {
		y.line("    timeDependsOn: [%s]", strings.Join(e.TimeDependsOn, ", "))
	}
	y.line("    params:")
	y.line("      type: object")
	y.line("      additionalProperties: false")
	if len(e.Params.Required) > 0 {
		y.line("      required: [%s]", strings.Join(e.Params.Required, ", "))
	}
	if len(e.Params.Properties) == 0 {
		y.line("      properties: {}")
		return y.Bytes()
	}
	y.line("      properties:")
	for _, p := range im.Params {
		if p.Name != "prompt" {
			y.line("        %s: %s", p.Name, flow(p.Schema))
		}
	}
	return y.Bytes()
}

type yaml struct{ bytes.Buffer }

func (y *yaml) line(format string, args ...any) { fmt.Fprintf(y, format+"\n", args...) }

// value is JSON, which is YAML too.
func value(v any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "null" // all of it was decoded from JSON
	}
	return strings.TrimSpace(out.String())
}

// flow writes a schema on one line, with its keys as people write them.
func flow(p Property) string {
	decoder := json.NewDecoder(strings.NewReader(value(p)))
	var fields map[string]json.RawMessage
	if decoder.Decode(&fields) != nil {
		return "{}"
	}
	order := []string{"description", "type", "x-reelay-input", "enum", "minimum", "maximum", "maxLength", "default"}
	var parts []string
	inOrder := func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) }
	for _, name := range slices.SortedFunc(maps.Keys(fields), inOrder) {
		text := string(fields[name])
		if plain.MatchString(text) && (name == "type" || name == "x-reelay-input") {
			text = strings.Trim(text, `"`)
		}
		parts = append(parts, name+": "+text)
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

var plain = regexp.MustCompile(`^"[a-z]+"$`)

// oneLine keeps what graphs and engines say within a comment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, clip(text, 500))
}
