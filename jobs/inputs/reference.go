package inputs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/digest"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// maxFetches is how many images the params of one job may name by URL. The fetches of a job run
// one after the other while one process has the claim on it.
const maxFetches = 4

// referenceOf reads the reference of a file that params name. A URL may be of any form here.
func referenceOf(file catalogue.Input) (reference.Reference, error) {
	r, err := reference.Parse(file.Reference)
	if err == nil && r.Take.OfOutput() {
		err = errors.New("is a value, and a file is needed: a value is written in a text, in braces")
	}
	if err != nil {
		return r, apierror.Invalid(file.Field(), "%s: %s %s.", file.Field(), text.Clip(file.Reference, 64), err)
	}
	return r, nil
}

// SourceJobs returns the jobs from which a job with these files and values takes something, once
// each.
func SourceJobs(files []catalogue.Input, values []Result) (ids []models.JobID) {
	for _, file := range files {
		if r, err := referenceOf(file); err == nil && r.Job.Valid() {
			ids = append(ids, r.Job)
		}
	}
	for _, value := range values {
		if value.Job.Valid() {
			ids = append(ids, value.Job)
		}
	}
	return lo.Uniq(ids)
}

// Remotes returns the URLs that files name, once each.
func Remotes(files []catalogue.Input) (urls []string) {
	for _, file := range files {
		if r, err := referenceOf(file); err == nil && r.Artifact == "" && r.Job == "" && !slices.Contains(urls, file.Reference) {
			urls = append(urls, file.Reference)
		}
	}
	return urls
}

// Stored are what a job starts from and needs no fetch: uploads, and what other jobs made.
type Stored struct {
	Uploads []Uploaded
	Results []Result
	// Artifacts are the files that are named by their ids, by what names them.
	Artifacts map[string]*models.Artifact
}

// Uploaded is an input that params name, and where.
type Uploaded struct {
	ID    models.ArtifactID
	Field string
}

// Result is what the params or the prompt of a job take from another job, and where.
type Result struct {
	Job   models.JobID
	Field string
	Take  reference.Take
	// artifact is the video, if the params name it rather than the job.
	artifact models.ArtifactID
}

// NoInput is the answer for a file that does not exist for this account.
func NoInput(field string) *apierror.Error {
	return apierror.NotFound("input (" + field + ")").In(field)
}

// wrongKind is the answer for a file of a kind that the model does not take there.
func wrongKind(file catalogue.Input, is string) error {
	takes := strings.Join(lo.Map(file.Kinds, func(kind catalogue.InputKind, _ int) string { return string(kind) }), " or ")
	return apierror.Invalid(file.Field(), "%s takes a file of the kind %s, and %s is %s: name another file.", file.Field(), takes,
		text.Clip(file.Reference, 64), is)
}

// Check returns why nothing can be taken from a job, as read under a lock or before. The values
// of its output are not checked.
func (r Result) Check(job *models.Job) error {
	switch {
	case !job.DeletedAt.IsZero():
		return NoInput(r.Field)
	case job.Status == models.JobFailed || job.Status == models.JobCancelled:
		return apierror.Invalid(r.Field, "%s: job %s is %s, so it has no %s: retry it, or name another.", r.Field, r.Job, job.Status,
			r.Take.Noun())
	case r.Take == reference.TakeDraft && job.DraftSteps == 0:
		return apierror.Invalid(r.Field, "%s: job %s is not a draft: leave out .draft, or submit the job with draft.", r.Field, r.Job)
	case r.Take == reference.TakeDraft && job.Status == models.JobCompleted && job.LatestCheckpointID == "":
		return apierror.Invalid(r.Field, "%s: the draft %s is no longer kept, or a job continues it: name another.", r.Field, r.Job)
	case r.Take.OfVideo() && job.DraftSteps > 0:
		return apierror.Invalid(r.Field, "%s: job %s is a draft, which has no video: name another. An approval can pick it as %s.draft.", r.Field,
			r.Job, r.Job)
	case r.Take.OfVideo() && job.Approval() && job.Question().Drafts > 0:
		return apierror.Invalid(r.Field, "%s: job %s picks a draft, which has no video: name the node that continues %s.", r.Field, r.Job, r.Job)
	case r.Take.OfVideo() && job.Status == models.JobCompleted && job.ResultID == "":
		return apierror.Invalid(r.Field, "%s: job %s has no video, or its video is no longer kept: name another.", r.Field, r.Job)
	case r.artifact != "" && job.ResultID != r.artifact:
		return NoInput(r.Field)
	}
	return nil
}

// Examination examines the files that params of one account name. It reads what all of them
// name at once, and verifies each upload once.
type Examination struct {
	*Inputs
	account   models.AccountID
	known     *catalogue.Snapshot
	artifacts map[models.ArtifactID]*models.Artifact
	jobs      map[models.JobID]*models.Job
	refused   map[Uploaded]error
}

// Examine reads what files and values name. Jobs in own are about to be written.
func (i *Inputs) Examine(ctx context.Context, account models.AccountID, known *catalogue.Snapshot, files []catalogue.Input, values []Result,
	own map[models.JobID]*models.Job) (*Examination, error) {
	x := &Examination{Inputs: i, account: account, known: known, refused: map[Uploaded]error{}}
	var ids []models.ArtifactID
	for _, file := range files {
		if r, err := referenceOf(file); err == nil && r.Artifact.Valid() {
			ids = append(ids, r.Artifact)
		}
	}
	if len(ids) > 0 {
		found, err := models.FindInputs(ctx, i.DB, account, lo.Uniq(ids))
		if err != nil {
			return nil, fmt.Errorf("read the inputs: %w", err)
		}
		x.artifacts = lo.KeyBy(found, func(a *models.Artifact) models.ArtifactID { return a.ID })
	}
	named := slices.DeleteFunc(SourceJobs(files, values), func(id models.JobID) bool { return own[id] != nil })
	if len(named) > 0 {
		found, err := models.GetJobs(ctx, i.DB, named)
		if err != nil {
			return nil, fmt.Errorf("read the jobs from which jobs take something: %w", err)
		}
		x.jobs = lo.KeyBy(found, func(j *models.Job) models.JobID { return j.ID })
	}
	x.jobs = lo.Assign(own, x.jobs)
	return x, nil
}

// Check verifies that what one job names can be used: the files in its params, and the values in
// its texts. An uploaded file is verified, and an image decoded, once; of a URL only the text is
// checked.
func (x *Examination) Check(ctx context.Context, files []catalogue.Input, values []Result) (found Stored, err error) {
	if len(files) > catalogue.MaxInputs {
		return found, apierror.Invalid("params", "The params name %d files; the maximum is %d per job.", len(files), catalogue.MaxInputs)
	}
	if n := len(Remotes(files)); n > maxFetches {
		return found, apierror.Invalid("params",
			"The params name %d images by URL; the maximum is %d per job. Upload the others with requestInputUpload.", n, maxFetches)
	}
	for _, file := range files {
		if err := x.file(ctx, file, &found); err != nil {
			return found, err
		}
	}
	for _, value := range values {
		if err := x.source(value); err != nil {
			return found, err
		}
		found.Results = append(found.Results, value)
	}
	return found, nil
}

// file verifies one file, and adds it to found.
func (x *Examination) file(ctx context.Context, file catalogue.Input, found *Stored) error {
	ref, err := referenceOf(file)
	switch {
	case err != nil:
		return err
	case ref.Artifact != "":
		a, err := x.artifact(ctx, file, ref)
		switch {
		case err != nil:
			return err
		}
		if found.Artifacts == nil {
			found.Artifacts = map[string]*models.Artifact{}
		}
		found.Artifacts[file.Reference] = a
		switch {
		case a.Type == models.ArtifactFinalVideo:
			found.Results = append(found.Results, Result{a.JobID, file.Field(), cmp.Or(ref.Take, reference.TakeVideo), ref.Artifact})
		default:
			found.Uploads = append(found.Uploads, Uploaded{ref.Artifact, file.Field()})
		}
		return nil
	case ref.Job != "":
		r := Result{Job: ref.Job, Field: file.Field(), Take: ref.Take}
		if err := x.job(file, r); err != nil {
			return err
		}
		found.Results = append(found.Results, r)
		return nil
	}
	return x.url(file)
}

func (x *Examination) url(file catalogue.Input) error {
	field := file.Field()
	if !slices.Contains(file.Kinds, catalogue.InputImage) {
		return apierror.Invalid(field,
			"%s is neither the id of an uploaded file (art_…) nor of a job (job_…). Only images are fetched from a URL: upload the file with requestInputUpload.", field)
	}
	if err := x.Remote.Check(file.Reference); err != nil {
		return apierror.Invalid(field, "%s is neither the id of an uploaded image (art_…) nor a URL to fetch one from: %s", field, err)
	}
	return nil
}

// job checks a job that made a file.
func (x *Examination) job(file catalogue.Input, r Result) error {
	if err := x.source(r); err != nil {
		return err
	}
	job := x.jobs[r.Job]
	if model := x.known.At(job.Model, job.ModelVersion); model != nil && !model.RequiresVideo() &&
		!(r.Take == reference.TakeThumbnail && model.Produces == catalogue.ProducesImage) {
		return apierror.Invalid(r.Field, "%s: job %s makes no %s: name another.", r.Field, r.Job, r.Take.Noun())
	}
	switch image := slices.Contains(file.Kinds, catalogue.InputImage); {
	case r.Take == reference.TakeVideo && !slices.Contains(file.Kinds, catalogue.InputVideo) && image:
		return apierror.Invalid(r.Field, "%s takes an image, and %s is the video of a job: name a picture of it, such as %s.lastFrame.", r.Field,
			r.Job, r.Job)
	case r.Take == reference.TakeVideo && !slices.Contains(file.Kinds, catalogue.InputVideo):
		return wrongKind(file, "a job, which makes a video")
	case r.Take == reference.TakeDraft && slices.Contains(file.Kinds, catalogue.InputDraft):
		return nil
	case r.Take == reference.TakeDraft:
		return wrongKind(file, "a draft")
	case r.Take != reference.TakeVideo && !image:
		return wrongKind(file, "an image")
	}
	return nil
}

// source checks the job that a reference names.
func (x *Examination) source(r Result) error {
	job := x.jobs[r.Job]
	if job == nil || job.AccountID != x.account {
		return NoInput(r.Field)
	}
	return r.Check(job)
}

// artifact returns the input or video of a reference.
func (x *Examination) artifact(ctx context.Context, file catalogue.Input, ref reference.Reference) (*models.Artifact, error) {
	if !ref.Artifact.Valid() {
		return nil, NoInput(file.Field())
	}
	if a := x.artifacts[ref.Artifact]; a != nil {
		return a, accepts(file, ref, a.ContentType)
	}
	place := Uploaded{ref.Artifact, file.Field()}
	if err := x.refused[place]; err != nil {
		return nil, err
	}
	a, err := x.announced(ctx, file, ref)
	if err != nil {
		x.refused[place] = err
		return nil, err
	}
	if x.artifacts == nil {
		x.artifacts = map[models.ArtifactID]*models.Artifact{}
	}
	x.artifacts[ref.Artifact] = a
	return a, nil
}

// CompleteDigest adds the contents of what a job names to its digest, if all of that is stored. If
// not, a job that does not ask for the result of another one has no digest.
func (x *Examination) CompleteDigest(job *models.Job) {
	var contents []string
	for _, name := range job.ReuseRefs {
		ref, err := reference.Parse(name)
		a := x.artifacts[ref.Artifact]
		if err != nil || a == nil {
			if !job.Reuse {
				job.ReuseDigest, job.ReuseRefs = nil, nil
			}
			return
		}
		contents = append(contents, change.FileContent(ref, a))
	}
	if job.ReuseDigest != nil {
		job.ReuseDigest, job.ReuseRefs = digest.WithContents(job.ReuseDigest, contents), nil
	}
}

// accepts returns an error unless the parameter takes what the reference names of a file of that
// type.
func accepts(file catalogue.Input, ref reference.Reference, contentType string) error {
	switch {
	case !ref.Take.Frame() && !file.Accepts(contentType):
		return wrongKind(file, contentType)
	case ref.Take.Frame() && !slices.Contains(file.Kinds, catalogue.InputImage):
		return wrongKind(file, "an image")
	case ref.Take.Frame() && !strings.HasPrefix(contentType, "video/"):
		return apierror.Invalid(file.Field(), "%s: %s is %s, and only a video has frames: leave out .%s.", file.Field(), ref.Artifact,
			contentType, ref.Take)
	}
	return nil
}

// announced makes an artifact of an upload that no job has named yet.
func (x *Examination) announced(ctx context.Context, file catalogue.Input, ref reference.Reference) (*models.Artifact, error) {
	issued, err := models.FindInputUpload(ctx, x.DB, x.account, ref.Artifact)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, NoInput(file.Field())
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of input %s: %w", ref.Artifact, err)
	}
	if err := accepts(file, ref, issued.ContentType); err != nil {
		return nil, err
	}
	info, err := x.verify(ctx, issued, file.Field())
	if err != nil {
		return nil, err
	}
	return x.keep(ctx, ref.Artifact, info)
}
