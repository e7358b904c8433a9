package inputs

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Use records that the next run of a locked job starts from these files, and contains these
// values if its texts were edited. Its parents are locked too. It reports whether images must
// still be fetched. It returns CONFLICT if a file is gone, or is of a job that is no parent and has
// not ended.
func Use(ctx context.Context, tx bun.Tx, job *models.Job, files []catalogue.Input, edited *Edit, all Relations) (fetch bool, err error) {
	found, err := findStored(ctx, tx, job.AccountID, files)
	if err != nil {
		return false, err
	}
	if edited != nil {
		found.Results = append(found.Results, edited.Values...)
		if err := models.DropSources(ctx, tx, job.ID); err != nil {
			return false, fmt.Errorf("forget what job %s took from others: %w", job.ID, err)
		}
	} else {
		found.Results = append(found.Results, recordedValues(all.sources[job.ID])...)
	}
	if err := useResults(ctx, tx, job, found.Results, all); err != nil {
		return false, err
	}
	for _, u := range found.Uploads {
		err := models.UseInput(ctx, tx, models.InputUse{JobID: job.ID, AccountID: job.AccountID, ArtifactID: u.ID, Reference: string(u.ID)})
		if errors.Is(err, sql.ErrNoRows) {
			return false, inputGone(u.Field)
		}
		if err != nil {
			return false, fmt.Errorf("use input %s: %w", u.ID, err)
		}
	}
	for _, url := range Remotes(files) {
		known, err := models.FindInputOf(ctx, tx, job.ID, url)
		if err == nil { // an earlier run fetched it
			err = models.UseInput(ctx, tx, models.InputUse{JobID: job.ID, AccountID: job.AccountID, ArtifactID: known.ID, Reference: url})
		}
		switch {
		case errors.Is(err, sql.ErrNoRows):
			fetch = true
		case err != nil:
			return false, fmt.Errorf("read an image of job %s: %w", job.ID, err)
		}
	}
	if !fetch {
		return false, nil
	}
	return true, apierror.Wrap(models.InsertInputFetches(ctx, tx, job), "have the images fetched")
}

func inputGone(field string) error {
	return apierror.Conflict("The file that %s names was deleted: submit a new job.", field)
}

// findStored sorts the stored files that params name.
func findStored(ctx context.Context, db bun.IDB, account models.AccountID, files []catalogue.Input) (found Stored, err error) {
	var named []Uploaded
	frames := map[Uploaded]reference.Take{}
	for _, file := range files {
		ref, err := referenceOf(file)
		switch {
		case err != nil:
			return found, err
		case ref.Artifact != "":
			named = append(named, Uploaded{ref.Artifact, file.Field()})
			frames[Uploaded{ref.Artifact, file.Field()}] = ref.Take
		case ref.Job != "":
			found.Results = append(found.Results, Result{Job: ref.Job, Field: file.Field(), Take: ref.Take})
		}
	}
	if len(named) == 0 {
		return found, nil
	}
	rows, err := models.FindInputs(ctx, db, account, lo.Map(named, func(u Uploaded, _ int) models.ArtifactID { return u.ID }))
	if err != nil {
		return found, fmt.Errorf("read the inputs: %w", err)
	}
	byID := lo.KeyBy(rows, func(a *models.Artifact) models.ArtifactID { return a.ID })
	for _, u := range named {
		switch a := byID[u.ID]; {
		case a == nil:
			return found, inputGone(u.Field)
		case a.Type == models.ArtifactFinalVideo:
			found.Results = append(found.Results, Result{a.JobID, u.Field, cmp.Or(frames[u], reference.TakeVideo), a.ID})
		default:
			found.Uploads = append(found.Uploads, u)
		}
	}
	return found, nil
}

// recordedValues returns the values in the texts of a job, as they were recorded.
func recordedValues(recorded []models.JobSource) (values []Result) {
	for _, row := range recorded {
		for _, take := range row.Takes {
			if reference.Take(take).OfOutput() {
				values = append(values, Result{Job: row.SourceID, Field: "prompt or params", Take: reference.Take(take)})
			}
		}
	}
	return values
}

// useResults records what a job takes from others.
func useResults(ctx context.Context, tx bun.Tx, job *models.Job, results []Result, all Relations) error {
	if len(results) == 0 {
		return nil
	}
	parents := all.Parents[job.ID]
	var others []models.JobID
	for _, r := range results {
		if !slices.ContainsFunc(parents, func(p change.Parent) bool { return p.ID == r.Job }) {
			others = append(others, r.Job)
		}
	}
	read, err := all.Seen.Read(ctx, tx, others)
	if err != nil {
		return fmt.Errorf("read the jobs from which job %s takes something: %w", job.ID, err)
	}
	sources := lo.KeyBy(read, func(j *models.Job) models.JobID { return j.ID })
	for _, p := range parents { // as this transaction leaves them
		sources[p.ID] = p.Job
	}
	for _, r := range results {
		source := sources[r.Job]
		if source == nil || source.AccountID != job.AccountID {
			return inputGone(r.Field)
		}
		awaited := slices.ContainsFunc(parents, func(p change.Parent) bool { return p.ID == source.ID })
		if !source.Status.Terminal() && !awaited {
			return apierror.Conflict("%s: job %s has not ended: wait for it.", r.Field, source.ID)
		}
		if err := r.Check(source); err != nil {
			return apierror.Conflict("%s", err)
		}
	}
	known, err := ReadHas(ctx, tx, results)
	if err != nil {
		return err
	}
	if err := known.Check(results, sources); err != nil {
		return apierror.Conflict("%s", err)
	}
	return apierror.Wrap(models.InsertSources(ctx, tx, SourcesOf(job.ID, results)), "record the sources of job %s", job.ID)
}

// mayNameInputs reports whether params hold what may be the name of a file. It spares the other
// jobs a query.
func mayNameInputs(params json.RawMessage) bool {
	return bytes.Contains(params, []byte(`"art_`)) || bytes.Contains(params, []byte(`"job_`)) || bytes.Contains(params, []byte(`"http`))
}

// Named is a file that a job starts from, under the name that its params give it: the
// parameter, and for an element of a list also its index, such as clips.0.
type Named struct {
	Name string
	*models.Artifact
	// Take is TakeFirstFrame or TakeLastFrame if the job starts from a picture of that frame of
	// the artifact, a video.
	Take reference.Take
}

// Of returns the files that a job starts from, see [Name].
func Of(ctx context.Context, db bun.IDB, job *models.Job) ([]Named, error) {
	if !mayNameInputs(job.Params) {
		return nil, nil
	}
	files, err := models.ListInputFiles(ctx, db, []models.JobID{job.ID})
	return Name(job.Params, files), apierror.Wrap(err, "read the inputs of job %s", job.ID)
}

// Name finds the names of a job's files in its params: referenceImage first, then in the
// order of the names and of the lists. It does without the model's schema: only a parameter
// that names a file has the reference of one that the job uses.
func Name(params json.RawMessage, files []*models.InputFile) (named []Named) {
	if len(files) == 0 {
		return nil
	}
	known := map[string]*models.Artifact{}
	for _, file := range files {
		switch {
		case file.Reference != "":
			known[file.Reference] = &file.Artifact
		case file.Type == models.ArtifactThumbnail:
			known[reference.Reference{Job: file.SourceID, Take: reference.TakeThumbnail}.String()] = &file.Artifact
		default: // a result, which has two names
			known[string(file.ID)], known[string(file.SourceID)] = &file.Artifact, &file.Artifact
		}
	}
	add := func(name, ref string) {
		r, err := reference.Parse(ref)
		if err != nil {
			return
		}
		in := Named{Name: name}
		if r.Take.Frame() {
			in.Take, r.Take = r.Take, reference.TakeFile
		}
		if in.Artifact = known[r.String()]; in.Artifact != nil {
			named = append(named, in)
		}
	}
	var values map[string]any
	_ = json.Unmarshal(params, &values) // it was made from a map
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch value := values[name].(type) {
		case string:
			add(name, value)
		case []any:
			for i, one := range value {
				if reference, ok := one.(string); ok {
					add(name+"."+strconv.Itoa(i), reference)
				}
			}
		}
	}
	slices.SortStableFunc(named, func(a, b Named) int {
		return lo.Ternary(b.Name == catalogue.ReferenceImage, 1, 0) - lo.Ternary(a.Name == catalogue.ReferenceImage, 1, 0)
	})
	return named
}

// Edit is what an operator changed for the new run of one job.
type Edit struct {
	Params json.RawMessage // checked, with its defaults; nil: as before
	// Model estimates with the new params.
	Model *catalogue.Model
	Input *models.SealedPrompt // the sealed prompt; nil: as before
	// Values are what the texts contain of other jobs' outputs, those that are as before included.
	Values []Result
}

// Relations are what jobs have to do with others, by the id of the job.
type Relations struct {
	Seen    change.Glimpse
	Parents map[models.JobID][]change.Parent
	sources map[models.JobID][]models.JobSource
}

// ReadRelations reads them. Of a parent that changes in this transaction, it has the change.
func ReadRelations(ctx context.Context, tx bun.Tx, changes []*change.Change, ids []models.JobID) (all Relations, err error) {
	all.Seen = change.Glimpse{}
	edges, err := models.ListDependencies(ctx, tx, ids)
	if err != nil {
		return all, fmt.Errorf("read the dependencies: %w", err)
	}
	own := lo.Keyify(ids)
	var on []models.JobID
	for _, edge := range edges {
		if _, is := own[edge.DependsOn]; !is {
			on = append(on, edge.DependsOn)
		}
	}
	others, err := all.Seen.Read(ctx, tx, on)
	if err != nil {
		return all, fmt.Errorf("read the parents: %w", err)
	}
	jobs := lo.KeyBy(others, func(j *models.Job) models.JobID { return j.ID })
	for _, c := range changes {
		jobs[c.Job.ID] = c.Job
	}
	all.Parents = map[models.JobID][]change.Parent{}
	for _, edge := range edges {
		all.Parents[edge.JobID] = append(all.Parents[edge.JobID], change.Parent{Job: jobs[edge.DependsOn], OnFailure: edge.OnFailure})
	}
	sources, err := models.ListSources(ctx, tx, ids)
	all.sources = lo.GroupBy(sources, func(s models.JobSource) models.JobID { return s.JobID })
	return all, apierror.Wrap(err, "read what jobs take from others")
}
