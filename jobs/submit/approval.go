package submit

import (
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
)

// validApproval checks what only an approval needs.
func (in *Submission) validApproval(job *models.Job, values []inputs.Result) error {
	asked := job.Question()
	switch {
	case in.node == nil:
		return apierror.Invalid("model", "%s works only as a node of a workflow: submit it with submitWorkflow, together with its candidates.",
			models.TypeApproval)
	case in.Reuse:
		return apierror.Invalid("reuse", "An approval cannot have the result of another job: leave out reuse.")
	case in.Prompt != "":
		return apierror.Invalid("prompt", "An approval has no prompt: write the question into params.question.")
	case len(values) > 0:
		return apierror.Invalid(values[0].Field, "%s: an approval cannot contain values of other jobs.", values[0].Field)
	case !text.Valid(asked.Question, 0, 1000):
		return apierror.Invalid("params.question", "params.question must be printable text.")
	case asked.Drafts > 0 && asked.Drafts < len(asked.Candidates):
		return apierror.Invalid("params.candidates", "Of %d candidates, %d are drafts: name drafts only, or videos only.", len(asked.Candidates),
			asked.Drafts)
	case asked.OnTimeout == models.TimeoutApprove && len(asked.Candidates) > 1:
		return apierror.Invalid("params.onTimeout",
			"params.onTimeout is approve, which does not say which of %d candidates: write first, or reject.", len(asked.Candidates))
	}
	return nil
}
