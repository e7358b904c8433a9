package jobs

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

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// useInputs records that the next run of a locked job starts from these files, and contains these
// values if its texts were edited. Its parents are locked too. It reports whether images must
// still be fetched. It returns CONFLICT if a file is gone, or is of a job that is no parent and has
// not ended.
func useInputs(ctx context.Context, tx bun.Tx, job *models.Job, files []catalogue.Input, edited *edit, all relations) (fetch bool, err error) {
	found, err := findStored(ctx, tx, job.AccountID, files)
	if err != nil {
		return false, err
	}
	if edited != nil {
		found.results = append(found.results, edited.values...)
		if err := models.DropSources(ctx, tx, job.ID); err != nil {
			return false, fmt.Errorf("forget what job %s took from others: %w", job.ID, err)
		}
	} else {
		found.results = append(found.results, recordedValues(all.sources[job.ID])...)
	}
	if err := useResults(ctx, tx, job, found.results, all); err != nil {
		return false, err
	}
	for _, u := range found.uploads {
		err := models.UseInput(ctx, tx, models.InputUse{JobID: job.ID, AccountID: job.AccountID, ArtifactID: u.id, Reference: string(u.id)})
		if errors.Is(err, sql.ErrNoRows) {
			return false, inputGone(u.field)
		}
		if err != nil {
			return false, fmt.Errorf("use input %s: %w", u.id, err)
		}
	}
	for _, url := range remotes(files) {
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
func findStored(ctx context.Context, db bun.IDB, account models.AccountID, files []catalogue.Input) (found stored, err error) {
	var named []uploaded
	frames := map[uploaded]Take{}
	for _, file := range files {
		ref, err := referenceOf(file)
		switch {
		case err != nil:
			return found, err
		case ref.Artifact != "":
			named = append(named, uploaded{ref.Artifact, file.Field()})
			frames[uploaded{ref.Artifact, file.Field()}] = ref.Take
		case ref.Job != "":
			found.results = append(found.results, result{job: ref.Job, field: file.Field(), take: ref.Take})
		}
	}
	if len(named) == 0 {
		return found, nil
	}
	rows, err := models.FindInputs(ctx, db, account, lo.Map(named, func(u uploaded, _ int) models.ArtifactID { return u.id }))
	if err != nil {
		return found, fmt.Errorf("read the inputs: %w", err)
	}
	byID := lo.KeyBy(rows, func(a *models.Artifact) models.ArtifactID { return a.ID })
	for _, u := range named {
		switch a := byID[u.id]; {
		case a == nil:
			return found, inputGone(u.field)
		case a.Type == models.ArtifactFinalVideo:
			found.results = append(found.results, result{a.JobID, u.field, cmp.Or(frames[u], TakeVideo), a.ID})
		default:
			found.uploads = append(found.uploads, u)
		}
	}
	return found, nil
}

// recordedValues returns the values in the texts of a job, as they were recorded.
func recordedValues(recorded []models.JobSource) (values []result) {
	for _, row := range recorded {
		for _, take := range row.Takes {
			if Take(take).OfOutput() {
				values = append(values, result{job: row.SourceID, field: "prompt or params", take: Take(take)})
			}
		}
	}
	return values
}

// useResults records what a job takes from others.
func useResults(ctx context.Context, tx bun.Tx, job *models.Job, results []result, all relations) error {
	if len(results) == 0 {
		return nil
	}
	parents := all.parents[job.ID]
	var others []models.JobID
	for _, r := range results {
		if !slices.ContainsFunc(parents, func(p parent) bool { return p.ID == r.job }) {
			others = append(others, r.job)
		}
	}
	read, err := all.seen.read(ctx, tx, others)
	if err != nil {
		return fmt.Errorf("read the jobs from which job %s takes something: %w", job.ID, err)
	}
	sources := lo.KeyBy(read, func(j *models.Job) models.JobID { return j.ID })
	for _, p := range parents { // as this transaction leaves them
		sources[p.ID] = p.Job
	}
	for _, r := range results {
		source := sources[r.job]
		if source == nil || source.AccountID != job.AccountID {
			return inputGone(r.field)
		}
		awaited := slices.ContainsFunc(parents, func(p parent) bool { return p.ID == source.ID })
		if !source.Status.Terminal() && !awaited {
			return apierror.Conflict("%s: job %s has not ended: wait for it.", r.field, source.ID)
		}
		if err := r.check(source); err != nil {
			return apierror.Conflict("%s", err)
		}
	}
	known, err := readHas(ctx, tx, results)
	if err != nil {
		return err
	}
	if err := known.check(results, sources); err != nil {
		return apierror.Conflict("%s", err)
	}
	return apierror.Wrap(models.InsertSources(ctx, tx, sourcesOf(job.ID, results)), "record the sources of job %s", job.ID)
}

// mayNameInputs reports whether params hold what may be the name of a file. It spares the other
// jobs a query.
func mayNameInputs(params json.RawMessage) bool {
	return bytes.Contains(params, []byte(`"art_`)) || bytes.Contains(params, []byte(`"job_`)) || bytes.Contains(params, []byte(`"http`))
}

// NamedInput is a file that a job starts from, under the name that its params give it: the
// parameter, and for an element of a list also its index, such as clips.0.
type NamedInput struct {
	Name string
	*models.Artifact
	// Take is TakeFirstFrame or TakeLastFrame if the job starts from a picture of that frame of
	// the artifact, a video.
	Take Take
}

// inputsOf returns the files that a job starts from, see [NameInputs].
func inputsOf(ctx context.Context, db bun.IDB, job *models.Job) ([]NamedInput, error) {
	if !mayNameInputs(job.Params) {
		return nil, nil
	}
	files, err := models.ListInputFiles(ctx, db, []models.JobID{job.ID})
	return NameInputs(job.Params, files), apierror.Wrap(err, "read the inputs of job %s", job.ID)
}

// NameInputs finds the names of a job's files in its params: referenceImage first, then in the
// order of the names and of the lists. It does without the model's schema: only a parameter
// that names a file has the reference of one that the job uses.
func NameInputs(params json.RawMessage, files []*models.InputFile) (named []NamedInput) {
	if len(files) == 0 {
		return nil
	}
	known := map[string]*models.Artifact{}
	for _, file := range files {
		switch {
		case file.Reference != "":
			known[file.Reference] = &file.Artifact
		case file.Type == models.ArtifactThumbnail:
			known[Reference{Job: file.JobID, Take: TakeThumbnail}.String()] = &file.Artifact
		default: // a result, which has two names
			known[string(file.ID)], known[string(file.JobID)] = &file.Artifact, &file.Artifact
		}
	}
	add := func(name, reference string) {
		r, err := ParseReference(reference)
		if err != nil {
			return
		}
		in := NamedInput{Name: name}
		if r.Take.Frame() {
			in.Take, r.Take = r.Take, TakeFile
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
	slices.SortStableFunc(named, func(a, b NamedInput) int {
		return lo.Ternary(b.Name == catalogue.ReferenceImage, 1, 0) - lo.Ternary(a.Name == catalogue.ReferenceImage, 1, 0)
	})
	return named
}

// edit is what an operator changed for the new run of one job.
type edit struct {
	params json.RawMessage // checked, with its defaults; nil: as before
	// model estimates with the new params.
	model *catalogue.Model
	input *models.JobInput // the sealed prompt; nil: as before
	// values are what the texts contain of other jobs' outputs, those that are as before included.
	values []result
}

// relations are what jobs have to do with others, by the id of the job.
type relations struct {
	seen    glimpse
	parents map[models.JobID][]parent
	sources map[models.JobID][]models.JobSource
}

// readRelations reads them. Of a parent that changes in this transaction, it has the change.
func readRelations(ctx context.Context, tx bun.Tx, changes []*Change, ids []models.JobID) (all relations, err error) {
	all.seen = glimpse{}
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
	others, err := all.seen.read(ctx, tx, on)
	if err != nil {
		return all, fmt.Errorf("read the parents: %w", err)
	}
	jobs := lo.KeyBy(others, func(j *models.Job) models.JobID { return j.ID })
	for _, c := range changes {
		jobs[c.job.ID] = c.job
	}
	all.parents = map[models.JobID][]parent{}
	for _, edge := range edges {
		all.parents[edge.JobID] = append(all.parents[edge.JobID], parent{jobs[edge.DependsOn], edge.OnFailure})
	}
	sources, err := models.ListSources(ctx, tx, ids)
	all.sources = lo.GroupBy(sources, func(s models.JobSource) models.JobID { return s.JobID })
	return all, apierror.Wrap(err, "read what jobs take from others")
}
