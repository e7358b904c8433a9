package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models/schedules"
)

// Request is what a schedule submits: a job or a workflow. The other one is nil.
type Request struct {
	Job      *submit.Submission
	Workflow *workflow.Input
}

// maxRequest is how large a stored request may be, in bytes of JSON: a workflow of about 1000 jobs
// with prompts of a few lines. Each slot that fires reads it.
const maxRequest = 1 << 20

// checkOne refuses a request of no job or workflow, and one of both.
func (r Request) checkOne() error {
	switch {
	case r.Job == nil && r.Workflow == nil:
		return apierror.Invalid("job", "Give either a job or a workflow for the schedule to submit.")
	case r.Job != nil && r.Workflow != nil:
		return apierror.Invalid("workflow", "Give either a job or a workflow for the schedule to submit, not both.")
	}
	return nil
}

// checkRepeated refuses what makes no sense in a request that is submitted again and again.
func (r Request) checkRepeated() error {
	if r.Job != nil {
		if field := fixed(r.Job); field != "" {
			return apierror.Invalid("job."+field, "The job of a schedule cannot have %s: it would be the same for each slot.", field)
		}
		return nil
	}
	if r.Workflow.IdempotencyKey != nil {
		return apierror.Invalid("workflow.idempotencyKey",
			"The workflow of a schedule cannot have idempotencyKey: it would be the same for each slot.")
	}
	if r.Workflow.Reuse != "" {
		return apierror.Invalid("workflow.reuse", "The workflow of a schedule cannot have reuse: every slot would reuse the same results.")
	}
	for i := range r.Workflow.Jobs {
		n := &r.Workflow.Jobs[i]
		if field := fixed(&n.Job); field != "" {
			return apierror.Invalid("workflow.jobs."+n.Key+".job."+field,
				"The node %s cannot have %s: it would be the same for each slot of the schedule.", n.Key, field)
		}
	}
	return nil
}

// submits names what the request is, as a field.
func (r Request) submits() string {
	if r.Workflow != nil {
		return "workflow"
	}
	return "job"
}

// submits is Request.submits of a stored schedule.
func submits(s *schedules.Schedule) string {
	if s.Workflow != "" {
		return "workflow"
	}
	return "job"
}

// fixed returns a field of a job that would be the same for each slot, or "".
func fixed(job *submit.Submission) string {
	switch {
	case job.RunAt != nil:
		return "runAt"
	case job.ExpiresAt != nil:
		return "expiresAt"
	case job.FinishBy != nil:
		return "finishBy"
	case job.IdempotencyKey != nil:
		return "idempotencyKey"
	case len(job.DependsOn) > 0:
		return "dependsOn"
	}
	return ""
}

// modelsOf returns the models of a workflow's jobs, each once and in order.
func modelsOf(w *workflow.Input) []string {
	var names []string
	for _, job := range w.Jobs {
		names = append(names, job.Job.Model)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sealTo stores the request in a schedule, and what lists show of it. It holds prompts, so it is
// encrypted as they are. It returns INVALID_INPUT for a request that is too large.
func (r Request) sealTo(s *schedules.Schedule, sealer *seal.Sealer) error {
	var request any = r.Job
	if r.Workflow != nil {
		request, s.Workflow, s.WorkflowJobs = r.Workflow, r.Workflow.Name, len(r.Workflow.Jobs)
		s.Models = modelsOf(r.Workflow)
	} else {
		s.Model = r.Job.Model
	}
	plain, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	if len(plain) > maxRequest {
		return apierror.Invalid("workflow.jobs",
			"The workflow has %d jobs and %d kB; a schedule can store %d kB. Shorten it, or split it among several schedules.",
			s.WorkflowJobs, len(plain)>>10, maxRequest>>10)
	}
	sealed, err := sealer.Seal(plain, []byte(s.ID))
	if err != nil {
		return fmt.Errorf("encrypt the request: %w", err)
	}
	s.Ciphertext, s.WrappedKey = sealed.Ciphertext, sealed.WrappedKey
	return nil
}

// RequestOf reads what a schedule submits. It returns NOT_FOUND if the schedule is deleted.
func (r *Runner) RequestOf(ctx context.Context, s *schedules.Schedule) (Request, error) {
	if err := schedules.ReadRequest(ctx, r.DB, s); err != nil {
		return Request{}, apierror.Wrap(apierror.OrNotFound(err, "schedule"), "read the request of schedule %s", s.ID)
	}
	return unsealed(s, r.Sealer)
}

// unsealed returns what sealTo stored in a schedule.
func unsealed(s *schedules.Schedule, sealer *seal.Sealer) (r Request, err error) {
	plain, err := sealer.Open(seal.Sealed{Ciphertext: s.Ciphertext, WrappedKey: s.WrappedKey}, []byte(s.ID))
	if err != nil {
		return r, fmt.Errorf("decrypt the request: %w", err)
	}
	if s.Workflow == "" {
		r.Job = new(submit.Submission)
		err = json.Unmarshal(plain, r.Job)
	} else {
		r.Workflow = new(workflow.Input)
		err = json.Unmarshal(plain, r.Workflow)
	}
	if err != nil {
		return Request{}, fmt.Errorf("decode the request: %w", err)
	}
	for _, job := range r.jobs() {
		// encoding/json writes a nil RawMessage as null, and reads it back as the text.
		for _, raw := range []*json.RawMessage{&job.Params, &job.Metadata} {
			if string(*raw) == "null" {
				*raw = nil
			}
		}
	}
	return r, nil
}

// jobs returns the jobs of the request.
func (r Request) jobs() (all []*submit.Submission) {
	if r.Workflow == nil {
		return []*submit.Submission{r.Job}
	}
	for i := range r.Workflow.Jobs {
		all = append(all, &r.Workflow.Jobs[i].Job)
	}
	return all
}
