package storyboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/yamlfile"
)

const (
	// The limits of a prompt are those of the API.
	maxPromptCharacters = 10_000
	maxPromptBytes      = 40_000
	maxName             = 100
	// maxFade is the longest cross-fade of the model video.stitch, in seconds.
	maxFade = 10
	// usualFade is how long a cross-fade takes that does not say so, in seconds.
	usualFade = 0.5
	cut       = "cut"
)

// transitions are those of the model video.stitch, and the cut.
var transitions = []string{cut, "fade", "fadeblack", "fadewhite", "dissolve", "wipeleft", "wiperight", "slideleft", "slideright",
	"circleopen", "radial"}

// check completes the film, and records its problems.
func (f *Film) check() {
	if !text.Valid(f.Name, 1, maxName) {
		f.file.Problem("$.name", "a film needs a name of 1 to %d printable characters: it names the workflow", maxName)
	}
	if tier := f.Defaults.Tier; tier != "" && !slices.Contains(client.AllTier, client.Tier(strings.ToUpper(tier))) {
		f.file.Problem("$.defaults.tier", "the tier is %s: it must be one of %s", show(tier), strings.ToLower(text.Join(client.AllTier)))
	}
	switch {
	case len(f.Shots) == 0:
		f.file.Problem("$", "the film has no shots: it needs a list named shots")
		return
	case len(f.Shots) > MaxShots:
		f.file.Problem("$.shots", "the film has %d shots: it may have %d. Split it into several films", len(f.Shots), MaxShots)
		return
	}
	f.checkKeys()
	for i := range f.Shots {
		f.checkShot(i)
	}
	f.checkStarts()
	f.checkTransition()
	f.checkOutput()
	f.checkApproval()
}

const (
	// maxTakes bounds the takes of a shot: those of a film of MaxShots fit into one workflow.
	maxTakes = 8
	// maxWait is the longest time for an answer, in seconds.
	maxWait = 90 * 24 * 60 * 60
)

// checkApproval checks what shots wait for.
func (f *Film) checkApproval() {
	if wait := f.Approval.WaitSeconds; wait != nil && (*wait < 1 || *wait > maxWait) {
		f.file.Problem("$.approval.waitSeconds", "waitSeconds is %d: it must be from 1 to %d, which is 90 days", *wait, maxWait)
	}
	if after := f.Approval.OnTimeout; after != "" && !slices.Contains([]string{"reject", "approve", "first"}, after) {
		f.file.Problem("$.approval.onTimeout", "onTimeout is %s: it must be reject, approve or first", show(after))
	}
	for i, shot := range f.Shots {
		switch {
		case shot.Takes < 0 || shot.Takes > maxTakes:
			f.problem(i, "takes", "has %d takes: it may have %d", shot.Takes, maxTakes)
		case shot.DraftSteps < 0:
			f.problem(i, "draftSteps", "has %d draftSteps: write 1 or more, or leave it out", shot.DraftSteps)
		case shot.DraftSteps > 0 && shot.Takes < 2 && !shot.Approve:
			f.problem(i, "draftSteps", "has draftSteps, but no approval: set takes or approve")
		case shot.Takes > 1 && f.Approval.OnTimeout == "approve":
			f.problem(i, "takes", "has %d takes, and onTimeout is approve, which does not say which one: write first, or reject", shot.Takes)
		}
	}
}

// place is the place of a field of a shot in the file.
func place(shot int, field string) string { return fmt.Sprintf("$.shots[%d].%s", shot, field) }

// problem records a problem of a shot.
func (f *Film) problem(shot int, field, format string, args ...any) {
	f.file.Problem(place(shot, field), "the shot %s %s", show(f.Shots[shot].Key), fmt.Sprintf(format, args...))
}

func show(name string) string { return text.Clip(text.Printable(name), 64) }

func (f *Film) checkKeys() {
	f.nth = map[string]int{}
	for i := range f.Shots {
		shot := &f.Shots[i]
		given := shot.Key != ""
		shot.Key = cmp.Or(shot.Key, fmt.Sprintf("s%d", i+1))
		switch first, twice := f.nth[shot.Key]; {
		case !keyShape.MatchString(shot.Key):
			f.file.Problem(place(i, "key"), "the key of a shot is %s: it may have up to 90 letters, digits, _ and -", show(shot.Key))
		case shot.Key == "previous":
			f.file.Problem(place(i, "key"), "previous cannot be the key of a shot: in startFrom it means the shot before")
		case twice && !given:
			f.file.Problem(place(i, "prompt"), "shot %d has no key, and the one that it would get, %s, is that of shot %d: give it a key", i+1,
				shot.Key, first+1)
		case twice:
			f.file.Problem(place(i, "key"), "the shots %d and %d have the same key, %s: give one of them another", first+1, i+1, shot.Key)
		default:
			f.nth[shot.Key] = i
		}
	}
}

func (f *Film) checkShot(i int) {
	shot := &f.Shots[i]
	shot.Prompt = strings.TrimSpace(shot.Prompt)
	prompt := f.prompt(shot)
	switch {
	case shot.Prompt == "":
		f.problem(i, "prompt", "has no prompt: say what it shows")
	case utf8.RuneCountInString(prompt) > maxPromptCharacters || len(prompt) > maxPromptBytes:
		f.problem(i, "prompt", "has a prompt of %d characters, with the style: at most %d are allowed", utf8.RuneCountInString(prompt),
			maxPromptCharacters)
	}
	if shot.Model = cmp.Or(shot.Model, f.Defaults.Model); shot.Model == "" {
		f.problem(i, "model", "has no model: give it one, or all shots with defaults.model")
	}
	var err error
	if shot.params, err = f.merge(shot); err != nil {
		f.problem(i, "params", "%s", err)
	}
	if d := cmp.Or(shot.DurationSeconds, f.Defaults.DurationSeconds); d != nil && !(*d > 0 && *d <= 86_400) {
		f.problem(i, "durationSeconds", "takes %g s: durationSeconds must be above 0, and at most 86400", *d)
	}
}

// merge returns the parameters of a shot: its own before the defaults.
func (f *Film) merge(shot *Shot) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, from := range []Settings{f.Defaults.Settings, shot.Settings} {
		own, err := fieldsOf(from.Params)
		if err != nil {
			return nil, err
		}
		for name, value := range map[string]any{"durationSeconds": from.DurationSeconds, "negativePrompt": from.NegativePrompt} {
			if value == "" || value == (*float64)(nil) {
				continue
			}
			if own[name] != nil {
				return nil, fmt.Errorf("has %s twice, on its own and in params: leave one of them out", name)
			}
			own[name], _ = json.Marshal(value) // a number that YAML has: NaN is refused by its limits
		}
		maps.Copy(all, own)
	}
	if shot.Seed != nil {
		if own, _ := fieldsOf(shot.Params); own["seed"] != nil {
			return nil, fmt.Errorf("has seed twice, on its own and in params: leave one of them out")
		}
		all["seed"], _ = json.Marshal(*shot.Seed)
	}
	return all, nil
}

func fieldsOf(params yamlfile.Document) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(params) == 0 {
		return all, nil
	}
	if err := json.Unmarshal(params, &all); err != nil || all == nil {
		return nil, fmt.Errorf("has params that are not %s", text.Map)
	}
	return all, nil
}

// checkStarts finds the image that each shot begins with, and refuses circles.
func (f *Film) checkStarts() {
	f.begins = make([]source, len(f.Shots))
	for _, name := range slices.Sorted(maps.Keys(f.References)) {
		if f.References[name] == "" {
			f.file.Problem("$.references", "the reference %s has no image: name a file, a URL or the id of an artifact", show(name))
		}
	}
	frames := map[string]source{}
	for _, name := range slices.Sorted(maps.Keys(f.Frames)) {
		from, err := f.frame(f.Frames[name], -1)
		if err != nil {
			f.file.Problem("$.frames", "the frame %s %s", show(name), err)
		}
		frames[name] = from
	}
	for i := range f.Shots {
		f.begins[i] = f.begin(i, frames)
	}
	f.checkCircles()
}

// begin returns the image that a shot begins with.
func (f *Film) begin(i int, frames map[string]source) (from source) {
	shot := &f.Shots[i]
	if shot.params["referenceImage"] != nil && (shot.Reference != "" || shot.StartFrom != "") || shot.Reference != "" && shot.StartFrom != "" {
		f.problem(i, "startFrom", "begins with several images: give it one of startFrom, reference and params.referenceImage")
		return from
	}
	if name := shot.Reference; name != "" {
		if f.References[name] == "" {
			f.problem(i, "reference", "names the reference %s, which %s", show(name),
				f.among("reference", name, slices.Sorted(maps.Keys(f.References))))
		}
		return source{image: f.References[name]}
	}
	if shot.StartFrom == "" {
		return from
	}
	if name, ok := strings.CutPrefix(shot.StartFrom, "frame "); ok {
		name = strings.TrimSpace(name)
		if _, known := f.Frames[name]; !known {
			f.problem(i, "startFrom", "starts from the frame %s, which %s", show(name), f.among("frame", name, slices.Sorted(maps.Keys(f.Frames))))
		}
		return frames[name]
	}
	if !strings.HasSuffix(shot.StartFrom, ".lastFrame") && !strings.HasSuffix(shot.StartFrom, ".firstFrame") {
		f.problem(i, "startFrom",
			"starts from %s: write previous.lastFrame, KEY.lastFrame, KEY.firstFrame or frame NAME; an image is a reference", show(shot.StartFrom))
		return from
	}
	from, err := f.frame(shot.StartFrom, i)
	if err != nil {
		f.problem(i, "startFrom", "%s", err)
	}
	return from
}

// frame reads what a frame is made from: the first or last frame of a shot, or an image. shot is the
// one that starts from it, or -1.
func (f *Film) frame(value string, shot int) (source, error) {
	key, which := value, ""
	for _, frame := range []string{"firstFrame", "lastFrame"} {
		if before, ok := strings.CutSuffix(value, "."+frame); ok {
			key, which = before, frame
		}
	}
	switch {
	case value == "":
		return source{}, fmt.Errorf("has no image: write KEY.lastFrame, KEY.firstFrame, or name an image")
	case which == "":
		return source{image: value}, nil
	case key == "previous" && shot < 0:
		return source{}, fmt.Errorf("is made from previous.%s, but a frame has no shot before it: name the shot", which)
	case key == "previous" && shot == 0:
		return source{}, fmt.Errorf("starts from the shot before, but it is the first: leave startFrom out")
	case key == "previous":
		key = f.Shots[shot-1].Key
	}
	if _, known := f.nth[key]; !known {
		return source{}, fmt.Errorf("starts from the shot %s, which %s", show(key), f.among("shot", key, f.Keys()))
	}
	if shot >= 0 && key == f.Shots[shot].Key {
		return source{}, fmt.Errorf("starts from itself: name another shot")
	}
	return source{shot: key, frame: which}, nil
}

// among says that a name is not among those that there are.
func (f *Film) among(kind, name string, names []string) string {
	const most = 10
	switch near := text.Nearest(name, names); {
	case near != "":
		return "does not exist; did you mean " + near + "?"
	case len(names) == 0:
		return "does not exist: the film has no " + kind + "s"
	case len(names) > most:
		return fmt.Sprintf("does not exist: there are %d %ss, such as %s", len(names), kind, text.Join(names[:most]))
	}
	return fmt.Sprintf("does not exist: the %ss are %s", kind, text.Join(names))
}

// checkCircles refuses shots that wait for each other. A shot waits for one other at most.
func (f *Film) checkCircles() {
	done := map[string]bool{}
	for i := range f.Shots {
		var path []string
		for key := f.Shots[i].Key; key != "" && !done[key]; key = f.begins[f.nth[key]].shot {
			if at := slices.Index(path, key); at >= 0 {
				circle := append(path[at:], key)
				f.problem(f.nth[key], "startFrom", "waits for itself: %s. Let one of them start from something else", clipPath(circle))
				break
			}
			path = append(path, key)
		}
		for _, key := range path {
			done[key] = true
		}
	}
}

// clipPath writes a circle of shots, without its middle if it is long.
func clipPath(keys []string) string {
	const ends = 4
	if len(keys) > 2*ends+1 {
		keys = slices.Concat(keys[:ends], []string{fmt.Sprintf("… %d more …", len(keys)-2*ends)}, keys[len(keys)-ends:])
	}
	return strings.Join(keys, " → ")
}

func (f *Film) checkTransition() {
	t := &f.Transition
	if t.Kind == "" && t.Seconds != nil && *t.Seconds > 0 {
		t.Kind = "fade"
	}
	t.Kind = cmp.Or(strings.ToLower(t.Kind), cut)
	if !slices.Contains(transitions, t.Kind) {
		f.file.Problem("$.transition.kind", "the transition is %s: it must be one of %s", show(t.Kind), text.Join(transitions))
		return
	}
	if t.Seconds == nil {
		t.Seconds = new(usualFade)
		if t.Kind == cut {
			*t.Seconds = 0
		}
	}
	switch seconds := *t.Seconds; {
	case !(seconds >= 0 && seconds <= maxFade):
		f.file.Problem("$.transition.seconds", "a transition takes 0 to %d s; it is %g", maxFade, seconds)
	case t.Kind == cut && seconds > 0:
		f.file.Problem("$.transition.seconds", "a cut takes no time: leave seconds out, or choose a kind such as dissolve")
	case len(f.Shots) > 1:
		f.checkFade(seconds)
	}
}

// checkFade refuses a cross-fade that takes more than half of the shortest shot. Shots without
// durationSeconds are checked when they are joined.
func (f *Film) checkFade(fade float64) {
	shortest, least := -1, math.Inf(1)
	for i := range f.Shots {
		if d, known := f.seconds(i); known && d < least {
			shortest, least = i, d
		}
	}
	if shortest >= 0 && 2*fade > least {
		f.file.Problem(
			"$.transition.seconds",
			"a transition of %g s is too long for the shot %s, which has %g s: it can take at most half of the shortest shot", fade,
			show(f.Shots[shortest].Key), least,
		)
	}
}

// seconds is the length of a shot, if the file says it.
func (f *Film) seconds(i int) (seconds float64, known bool) {
	known = json.Unmarshal(f.Shots[i].params["durationSeconds"], &seconds) == nil && seconds > 0
	return seconds, known
}

// length is the length of the film, if the file says that of each shot.
func (f *Film) length() (seconds float64, known bool) {
	for i := range f.Shots {
		shot, ok := f.seconds(i)
		if !ok {
			return 0, false
		}
		seconds += shot
	}
	return seconds - float64(len(f.Shots)-1)**f.Transition.Seconds, true
}

func (f *Film) checkOutput() {
	if v := f.Music.Volume; v != nil && !(*v >= 0 && *v <= 1) {
		f.file.Problem("$.music.volume", "the volume of the music is %g: it must be from 0 to 1", *v)
	}
	if f.Music.File == "" && f.Music.Volume != nil {
		f.file.Problem("$.music", "the music has a volume, but no file")
	}
	if music := f.Music.File; music != "" && !IsPath(music) && !strings.HasPrefix(music, "art_") {
		f.file.Problem("$.music.file", "music cannot be fetched from a URL: name a file, or the id of an artifact")
	}
	o := f.Output
	for name, side := range map[string]int{"width": o.Width, "height": o.Height} {
		if side != 0 && (side < 64 || side > 4096 || side%2 != 0) {
			f.file.Problem("$.output."+name, "the %s is %d: it must be an even number from 64 to 4096", name, side)
		}
	}
	if o.FPS != nil && !(*o.FPS >= 1 && *o.FPS <= 120) {
		f.file.Problem("$.output.fps", "fps is %g: it must be from 1 to 120", *o.FPS)
	}
	if at := o.ThumbnailAtSeconds; at != nil {
		length, known := f.length()
		switch {
		case !(*at >= 0 && *at <= 86_400):
			f.file.Problem("$.output.thumbnailAtSeconds", "thumbnailAtSeconds is %g: it must be 0 or more", *at)
		case known && *at >= length:
			f.file.Problem("$.output.thumbnailAtSeconds", "thumbnailAtSeconds is %g, but the film has only %g s", *at, length)
		}
	}
}
