package storyboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/samber/lo"
)

const (
	// maxClips is how many clips a job of the model video.stitch joins.
	maxClips = 50
	// FilmKey and ThumbnailKey are the keys of the nodes that join the shots and take a picture.
	FilmKey, ThumbnailKey = "film", "thumbnail"
	sumField              = "uploadSum"
	shotPrefix            = "shots."
)

// Options are what a film needs besides its file.
type Options struct {
	// Uploads has the id of the artifact for each of the film's Files.
	Uploads map[string]string
	// Sums has the checksum of each of the Files. It is kept in the metadata of the jobs that use the
	// file, so that the upload can be found again: see Uploaded.
	Sums map[string]string
	// Seeds replaces the seeds of shots, by their keys.
	Seeds map[string]int64
}

// NodeKey returns the key of the node of a shot.
func NodeKey(shot string) string { return shotPrefix + shot }

// ShotKey returns the key of the shot of a node, if it is that of one.
func ShotKey(node string) (key string, ok bool) { return strings.CutPrefix(node, shotPrefix) }

// Compile makes the workflow of the film: the shots in their order, the film, its picture. More than
// 50 shots are joined in groups first, which makes the same film. Equal films make equal workflows.
func (f *Film) Compile(o Options) (*client.SubmitWorkflowInput, error) {
	w := &workflow{f: f, in: client.SubmitWorkflowInput{Name: f.Name, Output: new(FilmKey)}}
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
		if !shot.Approve && shot.Takes < 2 {
			w.add(NodeKey(shot.Key), shot.Model, f.prompt(shot), params, o.Sums[f.begins[i].image])
		} else if err := w.addTakes(shot, params, o.Sums[f.begins[i].image]); err != nil {
			return nil, err
		}
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
	w.add(FilmKey, "video.stitch", "", film, o.Sums[f.Music.File])
	thumbnail := map[string]any{"video": outputOf(FilmKey, "video")}
	set(thumbnail, "atSeconds", f.Output.ThumbnailAtSeconds)
	w.add(ThumbnailKey, "video.thumbnail", "", thumbnail, "")
	return &w.in, nil
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
func (f *Film) stitchGroups(w *workflow, clips []string) (joined []string) {
	for from := 0; from < len(clips); from += maxClips {
		group := clips[from:min(from+maxClips, len(clips))]
		if len(group) == 1 {
			joined = append(joined, group[0])
			continue
		}
		key := fmt.Sprintf("%s.%d", FilmKey, len(joined)+1)
		w.add(key, "video.stitch", "", f.stitching(group), "")
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

// workflow is a workflow that is being made.
type workflow struct {
	f  *Film
	in client.SubmitWorkflowInput
}

// add adds a node. sum is the checksum of the file that it uses, or "".
func (w *workflow) add(key, model, prompt string, params map[string]any, sum string) {
	job := client.SubmitJobInput{Model: model, Params: object(params)}
	if prompt != "" {
		job.Prompt = &prompt
	}
	if sum != "" {
		job.Metadata = object(map[string]any{sumField: sum})
	}
	if w.f.Defaults.Tier != "" {
		job.Tier = new(client.Tier(strings.ToUpper(w.f.Defaults.Tier)))
	}
	w.in.Jobs = append(w.in.Jobs, client.WorkflowJobInput{Key: key, Job: job})
}

// addTakes adds a shot that is approved: a node for each take, with consecutive seeds, and under the
// shot's own key the one that picks, or, if the takes are drafts, the one that continues the pick.
func (w *workflow) addTakes(shot *Shot, params map[string]any, sum string) error {
	key, seed := NodeKey(shot.Key), int64(1)
	if given, ok := params["seed"]; ok {
		text, _ := json.Marshal(given)
		if json.Unmarshal(text, &seed) != nil && shot.Takes > 1 {
			return fmt.Errorf("the seed of the shot %s is no integer, so its takes cannot have others", shot.Key)
		}
	}
	var takes []string
	for i := range max(shot.Takes, 1) {
		own := maps.Clone(params)
		if shot.Takes > 1 {
			own["seed"] = seed + int64(i)
		}
		take := fmt.Sprintf("%s.t%d", key, i+1)
		w.add(take, shot.Model, w.f.prompt(shot), own, sum)
		if shot.DraftSteps > 0 {
			w.in.Jobs[len(w.in.Jobs)-1].Job.Draft = &client.DraftInput{Steps: shot.DraftSteps}
		}
		takes = append(takes, outputOf(take, lo.Ternary(shot.DraftSteps > 0, "draft", "video")))
	}
	asked := map[string]any{"candidates": takes, "question": "Approve the shot " + shot.Key + "?"}
	if len(takes) > 1 {
		asked["question"] = "Which take of the shot " + shot.Key + "?"
	}
	if w.f.Approval.WaitSeconds != nil {
		asked["waitSeconds"] = *w.f.Approval.WaitSeconds
	}
	if w.f.Approval.OnTimeout != "" {
		asked["onTimeout"] = w.f.Approval.OnTimeout
	}
	if shot.DraftSteps == 0 {
		w.add(key, approvalModel, "", asked, "")
		return nil
	}
	w.add(key+".pick", approvalModel, "", asked, "")
	w.add(key, shot.Model, "", nil, "")
	last := &w.in.Jobs[len(w.in.Jobs)-1]
	last.Continues, last.Job.Params = new(key+".pick"), nil
	return nil
}

// approvalModel is the model of nodes that wait for an answer.
const approvalModel = "workflow.approval"

func object(fields map[string]any) *json.RawMessage {
	text, _ := json.Marshal(fields) // made of texts, finite numbers and valid JSON
	return new(json.RawMessage(text))
}

// Uploaded returns the ids of the artifacts that the jobs of an earlier workflow used, by the
// checksums of their files.
func Uploaded(nodes []client.WorkflowNode) map[string]string {
	found := map[string]string{}
	for _, node := range nodes {
		var metadata map[string]any
		var params struct{ ReferenceImage, Music string }
		if node.Job.Metadata == nil || json.Unmarshal(*node.Job.Metadata, &metadata) != nil || json.Unmarshal(node.Job.Params, &params) != nil {
			continue
		}
		if sum, ok := metadata[sumField].(string); ok && sum != "" {
			found[sum] = cmp.Or(params.Music, params.ReferenceImage)
		}
	}
	return found
}
