package videos

import (
	"net/http"
	"time"

	"github.com/reelay/reelay/features/video"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
)

// linkTTL is how long links to content are valid. A download only has to begin by then.
const linkTTL = time.Hour

// variants are the artifacts of the variants of a video.
var variants = map[string]models.ArtifactType{
	"": models.ArtifactFinalVideo, "video": models.ArtifactFinalVideo,
	"thumbnail": models.ArtifactThumbnail, "spritesheet": models.ArtifactSpritesheet,
}

// content redirects to the bytes of a completed video, with a link that needs no key. If
// there is nothing to download, the status is 404, since clients retry after 409.
func (a *api) content(w http.ResponseWriter, c *call, id models.JobID) (any, error) {
	variant := c.URL.Query().Get("variant")
	kind, known := variants[variant]
	if !known {
		return nil, invalid("invalid_value", "variant", "Invalid value: '%s'. Supported values are: 'video', 'thumbnail', and 'spritesheet'.",
			door.Clip(variant))
	}
	v, err := a.Videos.Get(c.Context(), c.caller, id)
	if err != nil {
		return nil, err
	}
	switch {
	case !v.Status.Terminal():
		return nil, missing("video_not_ready", "Video is not ready yet, use GET /v1/videos/{video_id} to check status.")
	case v.Status != models.JobCompleted:
		return nil, missing("video_failed", "Video generation failed, so there is nothing to download: GET /v1/videos/{video_id} says why.")
	}
	artifact, err := a.artifact(c, v, kind)
	if err != nil {
		return nil, err
	}
	link, err := a.Videos.Jobs.Link(c.Context(), artifact, linkTTL)
	if err != nil {
		return nil, err
	}
	return nil, lead(w, c, link)
}

var errExpired = missing("video_expired", "The video's content has expired and was deleted.")

// artifact returns the newest artifact of a type; of final videos, the result.
func (a *api) artifact(c *call, v *video.Video, kind models.ArtifactType) (*models.Artifact, error) {
	edges, err := a.Videos.Jobs.Of(c.caller, v.Job)
	if err != nil {
		return nil, err
	}
	all, err := edges.Artifacts(c.Context())
	if err != nil {
		return nil, err
	}
	var found *models.Artifact
	for _, each := range all {
		if each.Type == kind && (kind != models.ArtifactFinalVideo || each.ID == v.ResultID) {
			found = each
		}
	}
	if found == nil && v.ResultID == "" {
		return nil, errExpired
	}
	if found == nil {
		return nil, missing("variant_not_found", "This video has no such variant: its model makes none.")
	}
	return found, nil
}
