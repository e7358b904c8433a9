package rest

import (
	"context"

	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// jobInputView is a file that a job starts from.
type jobInputView struct {
	Name        string             `json:"name" doc:"Parameter that refers to the file, with the index in a list, such as clips.0."`
	Reference   string             `json:"reference" doc:"Value of the parameter: the id of an artifact or a job, or a URL."`
	ArtifactID  *models.ArtifactID `json:"artifact_id" doc:"Null until the file exists, and once it is deleted."`
	ContentType *string            `json:"content_type" doc:"Null without an artifact."`
	SizeBytes   *int64             `json:"size_bytes" doc:"Null without an artifact."`
	URL         *string            `json:"url" doc:"A signed link to the file, valid for 24 hours. Null without an artifact."`
}

// inputs returns what is shown of the files that jobs start from. Jobs without files cost no
// statement.
func (s *service) inputs(ctx context.Context, rows []*models.Job) (map[models.JobID][]jobInputView, error) {
	naming := lo.Filter(rows, func(job *models.Job, _ int) bool { return len(s.Reads.Jobs.Inputs(job, nil)) > 0 })
	if len(naming) == 0 {
		return nil, nil
	}
	edges, err := s.Reads.Jobs.Of(callerOf(ctx).Principal, naming...)
	if err != nil {
		return nil, err
	}
	files, err := edges.InputFiles(ctx)
	if err != nil {
		return nil, err
	}
	of := lo.GroupBy(files, func(f *models.InputFile) models.JobID { return f.UsedBy })
	views := map[models.JobID][]jobInputView{}
	for _, job := range naming {
		for _, in := range s.Reads.Jobs.Inputs(job, of[job.ID]) {
			view := jobInputView{Name: in.Name, Reference: in.Reference}
			if a := in.Artifact; a != nil {
				link, err := s.Reads.Jobs.Link(ctx, a, linkTTL)
				if err != nil {
					return nil, err
				}
				view.ArtifactID, view.ContentType, view.SizeBytes, view.URL = &a.ID, &a.ContentType, &a.SizeBytes, new(link.At(callerOf(ctx).base))
			}
			views[job.ID] = append(views[job.ID], view)
		}
	}
	return views, nil
}

// showInputs adds a job's files to its view. It returns the ETag that covers both: like that of
// a job with links it does not depend on their signatures, and changes every hour.
func (v *jobView) showInputs(files []jobInputView, etag string) (string, error) {
	if len(files) == 0 {
		return etag, nil
	}
	v.Inputs = files
	var linked wire.Summary
	bare := make([]jobInputView, len(files))
	for i, in := range files {
		if in.URL != nil {
			linked.ResultURL = in.URL // tag does not hash the link itself
		}
		in.URL = nil
		bare[i] = in
	}
	return tag(linked, etag, bare)
}
