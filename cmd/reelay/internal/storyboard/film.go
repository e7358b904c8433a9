// Package storyboard reads the file of a film and compiles it to a workflow: a job for each shot,
// one that joins their videos, and one for a picture of the film. It is pure: it reads no files and
// calls no API.
package storyboard

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/reelay/reelay/internal/yamlfile"
)

const (
	// MaxBytes is how large the file of a film may be.
	MaxBytes = 1 << 20
	// MaxShots is how many shots a film may have.
	MaxShots = 1000
)

// Film is a film as its author describes it.
type Film struct {
	Name     string   `yaml:"name"`
	Defaults defaults `yaml:"defaults"`
	// Style is added to each prompt.
	Style string `yaml:"style"`
	// References are images by name: a file, a URL, or the id of an artifact.
	References map[string]string `yaml:"references"`
	// Frames are images by name that several shots may start from: shots.KEY of another shot's frame, or
	// an image as in References.
	Frames     map[string]string `yaml:"frames"`
	Shots      []Shot            `yaml:"shots"`
	Transition transition        `yaml:"transition"`
	Music      music             `yaml:"music"`
	Output     output            `yaml:"output"`
	// Approval says how long shots with Approve or Takes wait for an answer.
	Approval approval `yaml:"approval"`

	file *yamlfile.File
	// The shots by key, and how each begins.
	nth    map[string]int
	begins []source
}

// Settings are what a shot has, or gets from the defaults.
type Settings struct {
	Model           string            `yaml:"model"`
	DurationSeconds *float64          `yaml:"durationSeconds"`
	NegativePrompt  string            `yaml:"negativePrompt"`
	Params          yamlfile.Document `yaml:"params"`
}

// defaults hold for all shots. Tier also holds for the jobs that join them.
type defaults struct {
	Settings `yaml:",inline"`
	Tier     string `yaml:"tier"`
}

// Shot is one job of the film.
type Shot struct {
	Settings `yaml:",inline"`
	// Key names the shot: s1, s2 and so on if it is empty.
	Key    string `yaml:"key"`
	Prompt string `yaml:"prompt"`
	Seed   *int64 `yaml:"seed"`
	// Reference names one of the film's References.
	Reference string `yaml:"reference"`
	// StartFrom is "previous.lastFrame", "KEY.lastFrame", "KEY.firstFrame" or "frame NAME".
	StartFrom string `yaml:"startFrom"`
	// Approve lets the film wait until the shot is approved. Takes is how many videos of it are rendered,
	// with different seeds, of which one is picked.
	Approve bool `yaml:"approve"`
	Takes   int  `yaml:"takes"`
	// DraftSteps makes the takes drafts of so many steps, of which the picked one is continued. 0 makes them
	// whole videos.
	DraftSteps int `yaml:"draftSteps"`

	params map[string]json.RawMessage
}

// transition is how a shot follows another.
type transition struct {
	Kind    string   `yaml:"kind"`
	Seconds *float64 `yaml:"seconds"`
}

type music struct {
	File   string   `yaml:"file"`
	Volume *float64 `yaml:"volume"`
}

// approval is how long a shot waits for an answer, and what happens then. Without them, the model's
// defaults hold.
type approval struct {
	WaitSeconds *int   `yaml:"waitSeconds"`
	OnTimeout   string `yaml:"onTimeout"`
}

// output describes the joined film.
type output struct {
	Width              int      `yaml:"width"`
	Height             int      `yaml:"height"`
	FPS                *float64 `yaml:"fps"`
	ThumbnailAtSeconds *float64 `yaml:"thumbnailAtSeconds"`
}

// source is the image that a shot begins with: a frame of another shot, or an image. The zero value
// is none.
type source struct {
	shot, frame string
	image       string
}

// keyShape is the shape of the key of a shot. With "shots." before it, it is the key of a node.
var keyShape = regexp.MustCompile(`^[A-Za-z0-9_-]{1,90}$`)

// Read reads the file of a film, and checks what can be checked without the API. An error has all
// problems, each with its line.
func Read(name string, data []byte) (*Film, error) {
	f := &Film{}
	file, err := yamlfile.ReadUpTo(MaxBytes, name, "a film: a name and shots", data, f)
	if err != nil {
		return nil, err
	}
	f.file = file
	f.check()
	if err := file.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Files returns the paths of the images and the music that must be uploaded, each once.
func (f *Film) Files() (paths []string) {
	seen := map[string]bool{}
	add := func(image string) {
		if IsPath(image) && !seen[image] {
			seen[image] = true
			paths = append(paths, image)
		}
	}
	for _, begin := range f.begins {
		add(begin.image)
	}
	add(f.Music.File)
	return paths
}

// IsPath reports whether an image or sound is a file, and not a URL or the id of an artifact.
func IsPath(image string) bool {
	return image != "" && !strings.HasPrefix(image, "art_") && !strings.Contains(image, "://")
}

// Keys returns the keys of the shots, in their order.
func (f *Film) Keys() (keys []string) {
	for _, shot := range f.Shots {
		keys = append(keys, shot.Key)
	}
	return keys
}
