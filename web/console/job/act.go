package job

import (
	"net/http"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// linkTTL is how long a video can be paused and still continue.
const linkTTL = 6 * time.Hour

func (c *controller) jobVideo(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	job, err := c.Reads.Jobs.Get(r.Context(), p, models.JobID(r.PathValue("id")))
	if err != nil {
		return err
	}
	if job.ResultID == "" {
		return errNoVideo
	}
	return c.sendTo(w, r, p, job.ResultID)
}

func (c *controller) artifact(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.sendTo(w, r, p, models.ArtifactID(r.PathValue("id")))
}

// sendTo redirects to a signed link to an artifact.
func (c *controller) sendTo(w http.ResponseWriter, r *http.Request, p jobs.Principal, id models.ArtifactID) error {
	a, err := c.Reads.Jobs.Artifact(r.Context(), p, id)
	if err != nil {
		return err
	}
	link, err := c.Reads.Jobs.Link(r.Context(), a, linkTTL)
	if err != nil {
		return err
	}
	http.Redirect(w, r, link.At(""), http.StatusFound) // a page may load what is on its own origin
	return nil
}

var errNoVideo = apierror.Conflict("This job has no video yet.")
