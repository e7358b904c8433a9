package storyboard

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reelay/reelay/client"
)

const (
	// maxClips is how many clips a job of the model video.stitch joins.
	maxClips = 50
	// FilmKey and ThumbnailKey are the keys of the nodes that join the shots and take a picture.
	FilmKey, ThumbnailKey = "film", "thumbnail"
	shotPrefix            = "shots."
)

// Workflow is the compiled film.
type Workflow struct {
	Name   string `json:"name"`
	Jobs   []Node `json:"jobs"`
	Output string `json:"output"`
}

// Node is a job of a workflow. What its params name of other nodes is what it waits for.
type Node struct {
	Key string                `json:"key"`
	Job client.SubmitJobInput `json:"job"`
}

// Options are what a film needs besides its file.
type Options struct {
	// Uploads has the id of the artifact for each of the film's Files.
	Uploads map[string]string
	// Seeds replaces the seeds of shots, by their keys.
	Seeds map[string]int64
}

// NodeKey returns the key of the node of a shot.
func NodeKey(shot string) string { return shotPrefix + shot }

// ShotKey returns the key of the shot of a node, if it is that of one.
func ShotKey(node string) (key string, ok bool) { return strings.CutPrefix(node, shotPrefix) }

// Compile makes the workflow of the film: the shots in their order, the film, its picture. More than
// 50 shots are joined in groups first, which makes the same film. Equal films make equal workflows.
func (f *Film) Compile(o Options) (*Workflow, error) {
	w := &Workflow{Name: f.Name, Output: FilmKey}
	clips := make([]string, len(f.Shots))
	for i := range f.Shots {
		shot := &f.Shots[i]
		params := map[string]any{}
		for name, value := range shot.params {
			params[name] = value
		}
		if seed, ok := o.Seeds[shot.Key]; ok {
			params["seed"] = seed
		}
		begin, err := f.image(f.begins[i], o)
		if err != nil {
			return nil, err
		}
		if begin != "" {
			params["referenceImage"] = begin
		}
		w.add(f, NodeKey(shot.Key), shot.Model, f.prompt(shot), params)
		clips[i] = outputOf(NodeKey(shot.Key), "video")
	}
	if len(clips) > maxClips {
		clips = f.stitchGroups(w, clips)
	}
	film := f.stitching(clips)
	if f.Music.File != "" {
		music, err := o.artifact(f.Music.File)
		if err != nil {
			return nil, err
		}
		film["music"] = music
		set(film, "musicVolume", f.Music.Volume)
	}
	w.add(f, FilmKey, "video.stitch", "", film)
	thumbnail := map[string]any{"video": outputOf(FilmKey, "video")}
	set(thumbnail, "atSeconds", f.Output.ThumbnailAtSeconds)
	w.add(f, ThumbnailKey, "video.thumbnail", "", thumbnail)
	return w, nil
}

// prompt is the prompt of a shot with the film's style.
func (f *Film) prompt(shot *Shot) string {
	style := strings.TrimSpace(f.Style)
	switch {
	case style == "" || shot.Prompt == "":
		return shot.Prompt
	case strings.ContainsAny(shot.Prompt[len(shot.Prompt)-1:], ".,;:!?"):
		return shot.Prompt + " " + style
	}
	return shot.Prompt + ", " + style
}

// image returns the value of referenceImage for a source, or "".
func (f *Film) image(from source, o Options) (string, error) {
	switch {
	case from.shot != "":
		return outputOf(NodeKey(from.shot), from.frame), nil
	case from.image != "":
		return o.artifact(from.image)
	}
	return "", nil
}

func (o Options) artifact(file string) (string, error) {
	if !IsPath(file) {
		return file, nil
	}
	if o.Uploads[file] == "" {
		return "", fmt.Errorf("the file %s is not uploaded", file)
	}
	return o.Uploads[file], nil
}

// outputOf names an output of a node.
func outputOf(node, output string) string { return "{{" + node + "." + output + "}}" }

// stitchGroups adds a node for each group of clips, and returns what they make. A group of one clip
// is the clip. A cross-fade between two groups is as long as one between two clips, so the film is the
// same as if all were joined at once.
func (f *Film) stitchGroups(w *Workflow, clips []string) (joined []string) {
	for from := 0; from < len(clips); from += maxClips {
		group := clips[from:min(from+maxClips, len(clips))]
		if len(group) == 1 {
			joined = append(joined, group[0])
			continue
		}
		key := fmt.Sprintf("%s.%d", FilmKey, len(joined)+1)
		w.add(f, key, "video.stitch", "", f.stitching(group))
		joined = append(joined, outputOf(key, "video"))
	}
	return joined
}

// stitching returns the parameters that join clips.
func (f *Film) stitching(clips []string) map[string]any {
	params := map[string]any{"clips": clips}
	if fade := *f.Transition.Seconds; fade > 0 {
		params["crossfadeSeconds"], params["transition"] = fade, f.Transition.Kind
	}
	if f.Output.Width != 0 {
		params["width"] = f.Output.Width
	}
	if f.Output.Height != 0 {
		params["height"] = f.Output.Height
	}
	set(params, "fps", f.Output.FPS)
	return params
}

func set(params map[string]any, name string, value *float64) {
	if value != nil {
		params[name] = *value
	}
}

func (w *Workflow) add(f *Film, key, model, prompt string, params map[string]any) {
	text, _ := json.Marshal(params) // made of texts, finite numbers and valid JSON
	node := Node{Key: key, Job: client.SubmitJobInput{Model: model, Params: new(json.RawMessage(text))}}
	if prompt != "" {
		node.Job.Prompt = &prompt
	}
	if f.Defaults.Tier != "" {
		node.Job.Tier = new(client.Tier(strings.ToUpper(f.Defaults.Tier)))
	}
	w.Jobs = append(w.Jobs, node)
}
