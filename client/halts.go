package client

import "context"

// Halts returns what operators have halted.
func (c *Client) Halts(ctx context.Context) ([]Halt, error) {
	data, err := halts(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.Halts, nil
}

// Halt stops all schedules, all leases or both, and returns what is halted then. Running jobs
// continue. What is halted already keeps its reason.
func (c *Client) Halt(ctx context.Context, what []HaltTarget, reason string) ([]Halt, error) {
	data, err := halt(ctx, repeater{c}, what, reason)
	if err != nil {
		return nil, err
	}
	return data.Halt, nil
}

// Resume lifts halts, and returns what is still halted.
func (c *Client) Resume(ctx context.Context, what []HaltTarget) ([]Halt, error) {
	data, err := resume(ctx, repeater{c}, what)
	if err != nil {
		return nil, err
	}
	return data.Resume, nil
}
