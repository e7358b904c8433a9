package jobs

import (
	"context"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/apierror"
)

// Monitor writes down what an operator is about to do to the messages in Redis, by
// asynqmon: it is not done unless this returns nil. The path is one of asynqmon's,
// as it is sent; it names a queue, and a message or all of a state.
func (o *Operator) Monitor(ctx context.Context, p Principal, method, path string) error {
	if err := p.RequireOperator(); err != nil {
		return err
	}
	if !text.Valid(path, 1, MaxTargetRunes) {
		return apierror.Invalid("path", "The path may have %d printable characters: nothing was done.", MaxTargetRunes)
	}
	return p.Audit(ctx, o.DB, "asynqmon", path, Payload{"method": text.Clip(method, 16)})
}
