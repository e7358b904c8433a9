package query

import (
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// InputOfJob is a file that a job's params name.
type InputOfJob struct {
	catalogue.Input
	// Artifact is nil while the file does not exist yet, and once it is deleted.
	Artifact *models.Artifact
}

// Inputs returns the files that a job's params name, given those that exist: referenceImage
// first, then by name.
func (r *Jobs) Inputs(job *models.Job, files []*models.InputFile) (all []*InputOfJob) {
	exist := lo.KeyBy(inputs.Name(job.Params, files), func(in inputs.Named) string { return in.Name })
	for _, in := range r.catalogue.Current().At(job.Model, job.ModelVersion).Inputs(job.Params) {
		all = append(all, &InputOfJob{in, exist[in.Name].Artifact})
	}
	return all
}
