package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// maxFetches is how many images the params of one job may name by URL. The fetches of a job run
// one after the other while one process has the claim on it.
const maxFetches = 4

// reference is how a job's params name a file that it starts from: the id of an artifact or of
// a job, or a URL.
type reference string

// artifact returns the reference as an artifact's id.
func (r reference) artifact() (id models.ArtifactID, ok bool) {
	return models.ArtifactID(r), strings.HasPrefix(string(r), "art_")
}

// job returns the reference as a job's id.
func (r reference) job() (id models.JobID, ok bool) {
	return models.JobID(r), strings.HasPrefix(string(r), "job_")
}

// remote reports whether it is a URL.
func (r reference) remote() bool {
	_, artifact := r.artifact()
	_, job := r.job()
	return !artifact && !job
}

// jobsOf returns the jobs whose results the files are by their jobs' ids, once each.
func jobsOf(files []catalogue.Input) (ids []models.JobID) {
	for _, file := range files {
		if id, ok := reference(file.Reference).job(); ok && id.Valid() && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// remotes returns the URLs that files name, once each.
func remotes(files []catalogue.Input) (urls []string) {
	for _, file := range files {
		if reference(file.Reference).remote() && !slices.Contains(urls, file.Reference) {
			urls = append(urls, file.Reference)
		}
	}
	return urls
}

// stored are the files that a job starts from and that need no fetch: uploads, and videos of
// other jobs.
type stored struct {
	uploads []uploaded
	results []result
}

// uploaded is an input that params name, and where.
type uploaded struct {
	id    models.ArtifactID
	field string
}

// result is the video of another job that params name, and where.
type result struct {
	job   models.JobID
	field string
	// artifact is the video, if the params name it rather than the job.
	artifact models.ArtifactID
}

// noInput is the answer for a file that does not exist for this account.
func noInput(field string) *apierror.Error {
	return apierror.NotFound("input (" + field + ")").In(field)
}

// wrongKind is the answer for a file of a kind that the model does not take there.
func wrongKind(file catalogue.Input, is string) error {
	takes := strings.Join(lo.Map(file.Kinds, func(kind catalogue.InputKind, _ int) string { return string(kind) }), " or ")
	return apierror.Invalid(file.Field(), "%s takes a file of the kind %s, and %s is %s: name another file.", file.Field(), takes, text.Clip(file.Reference, 64), is)
}

// check returns why the result of a job, as read under a lock or before, cannot be used.
func (r result) check(job *models.Job) error {
	switch {
	case !job.DeletedAt.IsZero():
		return noInput(r.field)
	case job.Status == models.JobFailed || job.Status == models.JobCancelled:
		return apierror.Invalid(r.field, "%s: job %s is %s, so it has no video: retry it, or name another.", r.field, r.job, job.Status)
	case job.Status == models.JobCompleted && job.ResultID == "":
		return apierror.Invalid(r.field, "%s: job %s has no video, or its video is no longer kept: name another.", r.field, r.job)
	case r.artifact != "" && job.ResultID != r.artifact:
		return noInput(r.field)
	}
	return nil
}

// examination examines the files that params of one account name. It reads what all of them
// name at once, and verifies each upload once.
type examination struct {
	*Inputs
	account   models.AccountID
	known     *catalogue.Snapshot
	artifacts map[models.ArtifactID]*models.Artifact
	jobs      map[models.JobID]*models.Job
	refused   map[uploaded]error
}

// examine reads what files name. Jobs in own are about to be written.
func (i *Inputs) examine(ctx context.Context, account models.AccountID, known *catalogue.Snapshot, files []catalogue.Input, own map[models.JobID]*models.Job) (*examination, error) {
	x := &examination{Inputs: i, account: account, known: known, refused: map[uploaded]error{}}
	var ids []models.ArtifactID
	for _, file := range files {
		if id, ok := reference(file.Reference).artifact(); ok && id.Valid() {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		found, err := models.FindInputs(ctx, i.DB, account, lo.Uniq(ids))
		if err != nil {
			return nil, fmt.Errorf("read the inputs: %w", err)
		}
		x.artifacts = lo.KeyBy(found, func(a *models.Artifact) models.ArtifactID { return a.ID })
	}
	named := slices.DeleteFunc(jobsOf(files), func(id models.JobID) bool { return own[id] != nil })
	if len(named) > 0 {
		found, err := models.GetJobs(ctx, i.DB, named)
		if err != nil {
			return nil, fmt.Errorf("read the jobs whose videos are inputs: %w", err)
		}
		x.jobs = lo.KeyBy(found, func(j *models.Job) models.JobID { return j.ID })
	}
	x.jobs = lo.Assign(own, x.jobs)
	return x, nil
}

// check verifies that the files that one job's params name can be used. An uploaded file is
// verified, and an image decoded, once; of a URL only the text is checked.
func (x *examination) check(ctx context.Context, files []catalogue.Input) (found stored, err error) {
	if len(files) > catalogue.MaxInputs {
		return found, apierror.Invalid("params", "The params name %d files; a job may start from %d.", len(files), catalogue.MaxInputs)
	}
	if n := len(remotes(files)); n > maxFetches {
		return found, apierror.Invalid("params", "The params name %d images by URL, and a job may name %d: upload the others with requestInputUpload.", n, maxFetches)
	}
	for _, file := range files {
		ref, field := reference(file.Reference), file.Field()
		if id, ok := ref.artifact(); ok {
			a, err := x.artifact(ctx, file, id)
			switch {
			case err != nil:
				return found, err
			case a.Type == models.ArtifactFinalVideo:
				found.results = append(found.results, result{a.JobID, field, id})
			default:
				found.uploads = append(found.uploads, uploaded{id, field})
			}
		} else if id, ok := ref.job(); ok {
			r := result{job: id, field: field}
			if err := x.job(file, r); err != nil {
				return found, err
			}
			found.results = append(found.results, r)
		} else if err := x.url(file); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (x *examination) url(file catalogue.Input) error {
	field := file.Field()
	if !slices.Contains(file.Kinds, catalogue.InputImage) {
		return apierror.Invalid(field, "%s is neither the id of an uploaded file (art_…) nor of a job (job_…). Only images are fetched from a URL: upload the file with requestInputUpload.", field)
	}
	if err := x.Remote.Check(file.Reference); err != nil {
		return apierror.Invalid(field, "%s is neither the id of an uploaded image (art_…) nor a URL to fetch one from: %s", field, err)
	}
	return nil
}

// job checks a job whose result is an input.
func (x *examination) job(file catalogue.Input, r result) error {
	job := x.jobs[r.job]
	if job == nil || job.AccountID != x.account {
		return noInput(r.field)
	}
	if !slices.Contains(file.Kinds, catalogue.InputVideo) {
		return wrongKind(file, "a job, which makes a video")
	}
	if model := x.known.At(job.Model, job.ModelVersion); model != nil && !model.RequiresVideo() {
		return apierror.Invalid(r.field, "%s: job %s makes no video: name another.", r.field, r.job)
	}
	return r.check(job)
}

// artifact returns the input or video of that id.
func (x *examination) artifact(ctx context.Context, file catalogue.Input, id models.ArtifactID) (*models.Artifact, error) {
	if !id.Valid() {
		return nil, noInput(file.Field())
	}
	if a := x.artifacts[id]; a != nil {
		if !file.Accepts(a.ContentType) {
			return nil, wrongKind(file, a.ContentType)
		}
		return a, nil
	}
	place := uploaded{id, file.Field()}
	if err := x.refused[place]; err != nil {
		return nil, err
	}
	a, err := x.announced(ctx, file, id)
	if err != nil {
		x.refused[place] = err
		return nil, err
	}
	if x.artifacts == nil {
		x.artifacts = map[models.ArtifactID]*models.Artifact{}
	}
	x.artifacts[id] = a
	return a, nil
}

// announced makes an artifact of an upload that no job has named yet.
func (x *examination) announced(ctx context.Context, file catalogue.Input, id models.ArtifactID) (*models.Artifact, error) {
	issued, err := models.FindInputUpload(ctx, x.DB, x.account, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noInput(file.Field())
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of input %s: %w", id, err)
	}
	if !file.Accepts(issued.ContentType) {
		return nil, wrongKind(file, issued.ContentType)
	}
	info, err := x.verify(ctx, issued, file.Field())
	if err != nil {
		return nil, err
	}
	return x.keep(ctx, id, info)
}
