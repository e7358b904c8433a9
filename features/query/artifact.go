package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Artifacts returns the artifacts of the jobs, oldest first, after the jobs' inputs.
func (e Edges) Artifacts(ctx context.Context) ([]*models.Artifact, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	inputs, err := models.ListInputs(ctx, e.jobs.db, e.ids())
	if err != nil {
		return nil, fmt.Errorf("list inputs: %w", err)
	}
	found, err := models.ListArtifacts(ctx, e.jobs.db, e.ids())
	return append(inputs, found...), apierror.Wrap(err, "list artifacts")
}

// Artifacts returns those of the artifacts that the caller may see, in any order.
func (r *Jobs) Artifacts(ctx context.Context, p jobs.Principal, ids []models.ArtifactID) ([]*models.Artifact, error) {
	found, err := models.GetArtifacts(ctx, r.db, ids)
	return slices.DeleteFunc(found, func(a *models.Artifact) bool { return !p.Sees(a.AccountID) }), apierror.Wrap(err, "read artifacts")
}

// Artifact returns an artifact whose job the caller may see, or NOT_FOUND.
func (r *Jobs) Artifact(ctx context.Context, p jobs.Principal, id models.ArtifactID) (*models.Artifact, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("artifact")
	}
	found, err := r.Artifacts(ctx, p, []models.ArtifactID{id})
	if err == nil && len(found) == 0 {
		return nil, apierror.NotFound("artifact")
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

const (
	minLinkTTL = time.Minute
	maxLinkTTL = 24 * time.Hour
)

// Link signs a link to an artifact's object, valid for ttl (a minute to a day).
func (r *Jobs) Link(ctx context.Context, a *models.Artifact, ttl time.Duration) (jobs.Link, error) {
	if ttl < minLinkTTL || ttl > maxLinkTTL {
		return "", apierror.Invalid("expiresInSeconds", "expiresInSeconds must be from %.0f to %.0f.", minLinkTTL.Seconds(), maxLinkTTL.Seconds())
	}
	link, err := r.objects.LinkDownload(ctx, a.ObjectKey, Filename(a), ttl)
	if err != nil {
		return "", jobs.StoreAway(ctx, fmt.Errorf("link artifact %s: %w", a.ID, err))
	}
	return link, nil
}

// Filename returns the name under which a browser saves an artifact.
func Filename(a *models.Artifact) string {
	extension := map[string]string{"video/mp4": ".mp4", "image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp"}[a.ContentType]
	if strings.HasPrefix(a.ContentType, "text/plain") {
		extension = ".txt"
	}
	return fmt.Sprintf("%s-%s%s", cmp.Or(string(a.JobID), string(a.ID)), strings.ToLower(string(a.Type)), extension)
}

// Pictures returns the newest still picture of each of the jobs: of its video if there is
// one, otherwise of the unfinished video.
func (e Edges) Pictures(ctx context.Context) (map[models.JobID]models.ArtifactID, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	found, err := models.ListArtifacts(ctx, e.jobs.db, e.ids(), models.ArtifactThumbnail, models.ArtifactPreview)
	if err != nil {
		return nil, fmt.Errorf("find pictures of jobs: %w", err)
	}
	pictures, final := map[models.JobID]models.ArtifactID{}, map[models.JobID]bool{}
	for _, a := range found { // oldest first
		isFinal := a.Type == models.ArtifactThumbnail
		if strings.HasPrefix(a.ContentType, "image/") && (isFinal || !final[a.JobID]) {
			pictures[a.JobID], final[a.JobID] = a.ID, isFinal
		}
	}
	return pictures, nil
}

// Video returns the video of a COMPLETED job. It returns CONFLICT for a job that has not
// completed, and NOT_FOUND if the video was deleted or the job made none.
func (r *Jobs) Video(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Artifact, error) {
	job, err := r.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	switch {
	case !job.DeletedAt.IsZero():
		return nil, apierror.NotFound("video: it was deleted")
	case job.Status != models.JobCompleted:
		return nil, apierror.Conflict("This job is %s: only a COMPLETED one has a video.", job.Status)
	case job.ResultID == "":
		return nil, apierror.NotFound("video: it was deleted, or the job made none")
	}
	found, err := r.Artifacts(ctx, p, []models.ArtifactID{job.ResultID})
	if err == nil && len(found) == 0 {
		return nil, apierror.NotFound("video: it was deleted")
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// Output is what a job made: its video, and a still image of it. Both may be nil.
type Output struct{ Video, Still *models.Artifact }

// Outputs returns the outputs of those of the jobs that have a result.
func (e Edges) Outputs(ctx context.Context) (map[models.JobID]Output, error) {
	var ids []models.JobID
	for _, job := range e.rows {
		if job.ResultID != "" {
			ids = append(ids, job.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	artifacts, err := models.ListArtifacts(ctx, e.jobs.db, ids, models.ArtifactFinalVideo, models.ArtifactThumbnail)
	if err != nil {
		return nil, apierror.Wrap(err, "list results")
	}
	outputs := map[models.JobID]Output{}
	for _, a := range artifacts {
		of := outputs[a.JobID]
		switch a.Type {
		case models.ArtifactFinalVideo:
			of.Video = a
		case models.ArtifactThumbnail:
			of.Still = a
		}
		outputs[a.JobID] = of
	}
	return outputs, nil
}
