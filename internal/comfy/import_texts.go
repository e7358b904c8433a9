package comfy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/engine"
)

// titled matches the title with which an author declares parameters: Param: NAME, or
// Param: NAME=INPUT, NAME=INPUT.
var titled = regexp.MustCompile(`(?is)^\s*param(?:eter)?s?\s*:\s*(.+)$`)

// findTitles proposes what titles of nodes declare.
func (im *importer) findTitles() {
	type declared struct{ id, name, input string }
	var all []declared
	for _, id := range im.Graph.Sorted() {
		node := im.Graph[id]
		if node.Meta == nil {
			continue
		}
		found := titled.FindStringSubmatch(node.Meta.Title)
		if found == nil {
			continue
		}
		for _, part := range strings.Split(found[1], ",") {
			name, input, given := strings.Cut(part, "=")
			name, input = strings.TrimSpace(name), strings.TrimSpace(input)
			if !given {
				input = onlyValue(node)
			}
			switch {
			case !engine.ValidName(name):
				im.note("The title of the node %s declares %s, which is no name: names have letters, digits and underscores.",
					id, clip(name, 64))
			case input == "":
				im.note("The node %s has several values: title it Param: %s=INPUT.", id, name)
			default:
				all = append(all, declared{id, name, input})
			}
		}
	}
	for _, d := range all {
		t, value, ok := im.settable(d.id, d.input)
		switch i := slices.IndexFunc(im.Params, func(p Param) bool { return p.Name == d.name }); {
		case !ok:
			im.note("The title of the node %s declares %s, but its input %s is missing or comes from another node.",
				d.id, d.name, clip(d.input, 64))
		case i >= 0:
			im.Params[i].Targets = append(im.Params[i].Targets, t)
		case im.loader(t) != "":
			kind := im.loader(t)
			im.add(d.name, Property{Description: "The " + kind + " of the node " + d.id + ".", Type: "string", Input: kind}, t)
		default:
			im.add(d.name, im.property(t, value), t)
		}
	}
}

// loader returns the kind of the file that an input names, or "".
func (im *importer) loader(t Target) string {
	for _, l := range loaders {
		if im.Graph[t.Node].Class == l.class && t.Input == l.input {
			return l.kind
		}
	}
	return ""
}

// onlyValue returns the input of a node that a title without one means, or "".
func onlyValue(n *Node) string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		if _, list := n.Inputs[name].([]any); !list && name != Prefix {
			values = append(values, name)
		}
	}
	if len(values) == 1 {
		return values[0]
	}
	for _, usual := range []string{"value", "text", "image", "file", "video", "audio"} {
		if slices.Contains(values, usual) {
			return usual
		}
	}
	return ""
}

// textInputs are the inputs of nodes that encode a text.
var textInputs = []string{"text", "prompt", "clip_l", "clip_g", "t5xxl", "text_g", "text_l", "string", "value"}

// beside are links of which no text comes.
var beside = []string{
	"clip", "model", "vae", "clip_vision", "clip_vision_output", "image", "start_image", "end_image", "images",
	"latent", "latent_image", "samples", "noise", "sampler", "sigmas", "control_net",
}

// findTexts proposes the prompt and the negative prompt: the texts from which the inputs positive
// and negative of samplers come, and inputs that have such names themselves.
func (im *importer) findTexts() {
	var prompt, negative []Target
	for _, id := range im.Graph.Sorted() {
		inputs := im.Graph[id].Inputs
		prompt = append(prompt, im.texts(inputs["positive"])...)
		negative = append(negative, im.texts(inputs["negative"])...)
		if strings.Contains(im.Graph[id].Class, "Guider") {
			prompt = append(prompt, im.texts(inputs["conditioning"])...)
		}
		prompt = append(prompt, im.text(id, "positive_prompt")...)
		negative = append(negative, im.text(id, "negative_prompt")...)
	}
	for _, name := range []string{"prompt", "text"} {
		for _, id := range im.Graph.Sorted() {
			if len(prompt) == 0 {
				prompt = im.text(id, name)
			}
		}
	}
	prompt = unique(prompt)
	negative = slices.DeleteFunc(unique(negative), func(t Target) bool { return slices.Contains(prompt, t) })
	im.add("prompt", Property{}, prompt...)
	if len(negative) > 0 {
		value, _ := im.Graph[negative[0].Node].Inputs[negative[0].Input].(string)
		im.add("negativePrompt", Property{Description: "What the result should not have.", Type: "string", MaxLength: maxText,
			Default: clip(value, maxText)}, negative...)
	}
	if len(prompt) == 0 && !im.has("prompt") {
		im.note("No text of the graph is the prompt: jobs are submitted without one.")
	}
}

// text returns the input of a node if it is a text.
func (im *importer) text(id, input string) []Target {
	t, value, ok := im.settable(id, input)
	if _, isText := value.(string); !ok || !isText {
		return nil
	}
	return []Target{t}
}

// texts returns the texts from which a link comes. Through a node with positive and negative, such
// as WanImageToVideo, its outputs 0 and 1 lead to these.
func (im *importer) texts(value any) []Target {
	seen := map[string]bool{}
	var follow func(value any) []Target
	follow = func(value any) []Target {
		from, ok := Link(value)
		if !ok {
			return nil
		}
		slot := fmt.Sprint(value.([]any)[1])
		if seen[from+"/"+slot] {
			return nil
		}
		seen[from+"/"+slot] = true
		inputs := im.Graph[from].Inputs
		if inputs["positive"] != nil && inputs["negative"] != nil {
			return follow(inputs[map[string]string{"0": "positive", "1": "negative"}[slot]])
		}
		var found []Target
		for _, name := range textInputs {
			found = append(found, im.text(from, name)...)
		}
		if len(found) > 0 {
			return found
		}
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			if !slices.Contains(beside, name) {
				found = append(found, follow(inputs[name])...)
			}
		}
		return found
	}
	return follow(value)
}

func unique(targets []Target) []Target {
	var found []Target
	for _, t := range targets {
		if !slices.Contains(found, t) {
			found = append(found, t)
		}
	}
	return found
}
