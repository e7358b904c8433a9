package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
)

// Reference is how a job names what it takes from elsewhere: a file in its params, or, between
// braces, a value in one of its texts. One of Artifact, Job and URL is set.
type Reference struct {
	// Artifact and Job need not be valid ids: a reference with another one names nothing.
	Artifact models.ArtifactID
	Job      models.JobID
	URL      string
	// Take is what it takes of a job. Of an artifact it is a frame, or TakeFile for the whole file.
	Take Take
}

// Take is what a reference takes of a job or an artifact.
type Take string

const (
	TakeFile Take = ""
	// TakeVideo is the video of a job, which the job's id alone names too.
	TakeVideo Take = "video"
	// TakeFirstFrame and TakeLastFrame are pictures of the first and last frame of a video.
	TakeFirstFrame Take = "firstFrame"
	TakeLastFrame  Take = "lastFrame"
	// TakeDraft is a draft itself, which an approval can offer. TakePick is the draft that an approval
	// picks: no text names it, only the node that continues it.
	TakeDraft Take = "draft"
	TakePick  Take = "pick"
	// TakeThumbnail is the THUMBNAIL of a job.
	TakeThumbnail Take = "thumbnail"
	// TakeOutput is the whole output of a job. With a dot and a path it is the value there, such
	// as output.lines.0.text.
	TakeOutput Take = "output"
)

// maxPathRunes bounds the path of a value in an output.
const maxPathRunes = 200

// Parse reads a reference. Any text that begins with neither art_ nor job_ is a URL. The
// error is the end of a sentence, and says what may follow the id.
func Parse(name string) (Reference, error) {
	id, take, dotted := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(id, "job_"):
		r := Reference{Job: models.JobID(id), Take: TakeVideo}
		if dotted {
			r.Take = Take(take)
		}
		if r.Take.OfOutput() && !r.Take.validPath() {
			return r, fmt.Errorf("has a path of an output that is too long or has an empty part: write .output.key.0")
		}
		if !r.Take.OfOutput() && !slices.Contains([]Take{TakeVideo, TakeFirstFrame, TakeLastFrame, TakeThumbnail, TakeDraft}, r.Take) {
			return r, fmt.Errorf("has .%s after the id: a job has .video, .firstFrame, .lastFrame, .thumbnail, .output and .draft",
				text.Clip(take, 32))
		}
		return r, nil
	case strings.HasPrefix(id, "art_"):
		r := Reference{Artifact: models.ArtifactID(id), Take: Take(take)}
		if dotted && !r.Take.Frame() {
			return r, fmt.Errorf("has .%s after the id: a video has .firstFrame and .lastFrame", text.Clip(take, 32))
		}
		return r, nil
	}
	return Reference{URL: name}, nil
}

// String returns the reference as params say it.
func (r Reference) String() string {
	switch {
	case r.URL != "":
		return r.URL
	case r.Take == TakeFile || r.Take == TakeVideo:
		return string(r.Artifact) + string(r.Job)
	}
	return string(r.Artifact) + string(r.Job) + "." + string(r.Take)
}

// Placeholder returns the reference as texts say it.
func (r Reference) Placeholder() string { return "{{" + r.String() + "}}" }

// Frame reports whether it is a frame of a video.
func (t Take) Frame() bool { return t == TakeFirstFrame || t == TakeLastFrame }

// OfVideo reports whether it needs the video of a job.
func (t Take) OfVideo() bool { return t == TakeVideo || t.Frame() }

// OfOutput reports whether it is the output of a job, or a value of it.
func (t Take) OfOutput() bool {
	return t == TakeOutput || strings.HasPrefix(string(t), string(TakeOutput)+".")
}

func (t Take) validPath() bool {
	return text.Valid(string(t), 1, len(TakeOutput)+1+maxPathRunes) && !slices.Contains(strings.Split(string(t), "."), "")
}

// Noun is the thing in a sentence.
func (t Take) Noun() string {
	switch {
	case t == TakeThumbnail:
		return "thumbnail"
	case t == TakeDraft || t == TakePick:
		return "draft"
	case t.OfOutput():
		return "output"
	}
	return "video"
}
