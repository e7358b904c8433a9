package jobs

import (
	"path"
	"strings"

	"github.com/reelay/reelay/client"
)

// kind is a kind of file that a job has.
type kind struct {
	name     string
	artifact func(*client.JobHistory) *client.Artifact
	// byDefault means that it is downloaded if no kind is named and the job has none before it.
	byDefault bool
}

// kinds are in the order in which one is chosen. The output is no artifact.
var kinds = []kind{
	{"video", func(job *client.JobHistory) *client.Artifact { return job.Result }, true},
	{"thumbnail", newest(client.ArtifactTypeThumbnail), true},
	{outputKind, func(*client.JobHistory) *client.Artifact { return nil }, true},
	{"preview", newest(client.ArtifactTypePreview), true},
	{"spritesheet", newest(client.ArtifactTypeSpritesheet), false},
	{"log", newest(client.ArtifactTypeLog), false},
	{"evidence", newest(client.ArtifactTypeEvidence), false},
}

const outputKind = "output"

func newest(of client.ArtifactType) func(*client.JobHistory) *client.Artifact {
	return func(job *client.JobHistory) (found *client.Artifact) {
		for i := range job.Artifacts {
			if a := &job.Artifacts[i]; a.Type == of && (found == nil || a.CreatedAt.After(found.CreatedAt)) {
				found = a
			}
		}
		return found
	}
}

// of reports whether the job has a file of the kind.
func (k *kind) of(job *client.JobHistory) bool {
	if k.name == outputKind {
		return job.Output != nil
	}
	return k.artifact(job) != nil
}

// extensions are those of files, by content type without its parameters.
var extensions = map[string]string{
	"video/mp4": ".mp4", "video/webm": ".webm", "image/webp": ".webp", "image/jpeg": ".jpg", "image/png": ".png", "text/plain": ".txt",
}

// fileName returns the name of a file of the kind in the current folder. The artifact is nil for
// the output.
func (k *kind) fileName(job string, a *client.Artifact) string {
	name := path.Base(job)
	if k.name != "video" {
		name += "." + k.name
	}
	if a == nil {
		return name + ".json"
	}
	media, _, _ := strings.Cut(a.ContentType, ";")
	return name + extensions[media]
}

func kindNamed(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

// KindNames returns the kinds of files that a job can have, for --kind.
func KindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}
