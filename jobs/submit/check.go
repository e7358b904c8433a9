package submit

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
)

// Check returns the errors of [Submitter.Submit] about what a job takes from files and other jobs,
// in their present state. It submits nothing.
func (s *Submitter) Check(ctx context.Context, p jobs.Principal, in Submission) error {
	call := s.newCall(p, []Submission{in}, nil)
	if err := s.prepare(ctx, call); err != nil {
		return apierror.Wrap(err, "check a job")
	}
	if one := &call.set[0]; one.err != nil {
		return one.err
	}
	return call.set[0].badInput
}
