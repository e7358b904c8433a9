package tasks

import "context"

// Reconcile is the pass that looks for stuck messages.
func (p *Publisher) Reconcile(ctx context.Context) error { return p.sender.reconcile(ctx) }
