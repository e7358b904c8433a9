package jobs

import "context"

// Monitor writes down what an operator is about to do to the messages in Redis, by
// asynqmon: it is not done unless this returns nil. The path is one of asynqmon's,
// as it is sent; it names a queue, and a message or all of a state.
func (o *Operator) Monitor(ctx context.Context, p Principal, method, path string) error {
	if err := p.isOperator(); err != nil {
		return err
	}
	if !validText(path, 1, maxTargetRunes) {
		return invalid("path", "The path may have %d printable characters: nothing was done.", maxTargetRunes)
	}
	return p.audit(ctx, o.DB, "asynqmon", path, payload{"method": clip(method, 16)})
}
