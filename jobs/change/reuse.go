package change

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/digest"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Reuse completes the jobs with Reuse that changes queue for the first time and for which an equal job of
// the account has a result. It writes all but the jobs and events themselves.
func Reuse(ctx context.Context, tx bun.Tx, changes []*Change) error {
	asking := lo.Filter(changes, func(c *Change, _ int) bool {
		return c.Job.Reuse && c.Job.Status == models.JobQueued && c.Job.Run == 1 && c.Job.AttemptNo == 0 && c.Job.ReuseDigest != nil
	})
	if len(asking) == 0 {
		return nil
	}
	var resolved []*models.Job
	for _, c := range asking {
		if len(c.Job.ReuseRefs) == 0 {
			continue
		}
		if err := resolve(ctx, tx, c.Job); err != nil {
			return err
		}
		resolved = append(resolved, c.Job)
	}
	found, err := FindReusable(ctx, tx, lo.Map(asking, func(c *Change, _ int) *models.Job { return c.Job }), asking[0].Now)
	if err != nil {
		return err
	}
	var shared []*models.Artifact
	changed := resolved
	for _, c := range asking {
		if source, ok := found[c.Job.ID]; ok {
			rows, err := c.reuse(source)
			if err != nil {
				return err
			}
			shared, changed = append(shared, rows...), append(changed, c.Job)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := models.ShareArtifacts(ctx, tx, shared); err != nil {
		return fmt.Errorf("share the artifacts of other jobs: %w", err)
	}
	return apierror.Wrap(models.SaveReuse(ctx, tx, lo.Uniq(changed)), "write what jobs can reuse")
}

// Result is a job whose result another job can have, with its artifacts.
type Result struct {
	models.Reusable
	artifacts []*models.Artifact
}

// FindReusable finds a job for each of these, by id, whose result it can have at a time, and locks what
// it finds. The digests of the jobs are complete, or nil.
func FindReusable(ctx context.Context, tx bun.IDB, of []*models.Job, now time.Time) (map[models.JobID]Result, error) {
	of = lo.Filter(of, func(job *models.Job, _ int) bool { return job.ReuseDigest != nil })
	if len(of) == 0 {
		return nil, nil
	}
	locked, err := models.LockReusable(ctx, tx, of)
	if err != nil || len(locked) == 0 {
		return nil, apierror.Wrap(err, "look for equal jobs")
	}
	ids := lo.Uniq(lo.Map(locked, func(r models.Reusable, _ int) models.JobID { return r.ID }))
	rows, err := models.ListArtifacts(ctx, tx, ids, models.ResultTypes...)
	if err != nil {
		return nil, fmt.Errorf("read the artifacts of equal jobs: %w", err)
	}
	artifacts := lo.GroupBy(rows, func(a *models.Artifact) models.JobID { return a.JobID })
	found := map[models.JobID]Result{}
	for _, r := range locked {
		over := slices.ContainsFunc(artifacts[r.ID], func(a *models.Artifact) bool {
			return !a.RejectedAt.IsZero() || !a.ExpiresAt.IsZero() && !a.ExpiresAt.After(now)
		})
		if !over {
			found[r.For] = Result{r, artifacts[r.ID]}
		}
	}
	return found, nil
}

// reuse completes a queued job with the result of another one, and returns its artifacts.
func (c *Change) reuse(source Result) (shared []*models.Artifact, err error) {
	if err := c.Move(models.JobCompleted); err != nil {
		return nil, err
	}
	job := c.Job
	job.ReusedFrom, job.Output = source.ID, source.Output
	job.PredictedWaitSeconds, job.PredictedSeconds = nil, nil // they were for a job that a worker renders
	for _, a := range source.artifacts {
		own := *a
		own.ID, own.JobID, own.AttemptID, own.CreatedAt, own.ExpiresAt = models.NewArtifactID(), job.ID, "", c.Now, time.Time{}
		shared = append(shared, &own)
		if a.ID == source.ResultID {
			job.ResultID = own.ID
		}
		c.Thumbnail = c.Thumbnail || a.Type == models.ArtifactThumbnail
	}
	c.Note(models.EventCompleted, jobs.Payload{"gpuSeconds": 0, "reusedFrom": source.ID})
	c.Over()
	job.Progress.Percent = 100
	return shared, nil
}

// resolve completes the digest of a job whose files and values exist by now. The digest becomes nil if
// one of them does not.
func resolve(ctx context.Context, db bun.IDB, job *models.Job) error {
	contents, err := contentsOf(ctx, db, job)
	if err != nil {
		return fmt.Errorf("read what job %s takes: %w", job.ID, err)
	}
	if contents == nil {
		job.ReuseDigest, job.ReuseRefs = nil, nil
		return nil
	}
	job.ReuseDigest, job.ReuseRefs = digest.WithContents(job.ReuseDigest, contents), nil
	return nil
}

// contentsOf returns the contents of a job's ReuseRefs, or nil if one of them does not exist.
func contentsOf(ctx context.Context, db bun.IDB, job *models.Job) (contents []string, err error) {
	files, err := models.ListInputFiles(ctx, db, []models.JobID{job.ID})
	if err != nil {
		return nil, err
	}
	values, err := models.ReadOutputs(ctx, db, job.ID)
	if err != nil {
		return nil, err
	}
	for _, name := range job.ReuseRefs {
		ref, err := reference.Parse(name)
		if err != nil {
			return nil, nil
		}
		if ref.Take.OfOutput() {
			value, known := values[models.OutputValue{JobID: ref.Job, Take: string(ref.Take)}]
			if !known {
				return nil, nil
			}
			contents = append(contents, value)
			continue
		}
		i := slices.IndexFunc(files, func(f *models.InputFile) bool { return names(ref, f) })
		if i < 0 {
			return nil, nil
		}
		contents = append(contents, FileContent(ref, &files[i].Artifact))
	}
	return contents, nil
}

// names reports whether a reference names a file that a job starts from. The source of a file is not
// always the job that made it: an approval has the files of the picked job.
func names(ref reference.Reference, f *models.InputFile) bool {
	switch {
	case ref.URL != "":
		return f.Reference == ref.URL
	case ref.Artifact != "":
		return f.ID == ref.Artifact
	case ref.Take == reference.TakeThumbnail:
		return f.SourceID == ref.Job && f.Type == models.ArtifactThumbnail
	}
	return f.SourceID == ref.Job && f.Type == models.ArtifactFinalVideo
}

// FileContent is what a file adds to a digest.
func FileContent(ref reference.Reference, a *models.Artifact) string {
	content := fmt.Sprintf("%d %s", a.SizeBytes, a.Checksum)
	if ref.Take.Frame() {
		content += " " + string(ref.Take)
	}
	return content
}

// WriteReused writes the new jobs that Reuse completed, and what their ends mean for others.
func WriteReused(ctx context.Context, tx bun.Tx, reused []*Change) error {
	if len(reused) == 0 {
		return nil
	}
	if err := WriteRows(ctx, tx, reused, RowsOf(reused, models.Writes{})); err != nil {
		return err
	}
	if err := leaveDependents(ctx, tx, reused); err != nil {
		return err
	}
	if err := countWorkflows(ctx, tx, reused); err != nil {
		return err
	}
	return Announce(ctx, tx, reused)
}

// leaveDependents leaves the jobs that wait for reused ones to the Settler.
func leaveDependents(ctx context.Context, tx bun.Tx, changes []*Change) error {
	reused := lo.Filter(changes, func(c *Change, _ int) bool { return c.Job.Status == models.JobCompleted })
	if len(reused) == 0 {
		return nil
	}
	left, err := models.LeaveUnsettled(ctx, tx, lo.Map(reused, func(c *Change, _ int) models.JobID { return c.Job.ID }), nil)
	reused[0].Due = reused[0].Due || left > 0
	return apierror.Wrap(err, "leave the jobs that wait for reused ones")
}
