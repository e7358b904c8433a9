package agent

import (
	"log/slog"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/agent/redact"
)

// worker is what the attempts of a registered worker share.
type worker struct {
	config   Config
	api      *client.Client
	log      *slog.Logger
	dir      string
	going    *departure
	runtimes *host.Host
	secrets  *redact.Redactor
	packer   *packer

	// Set by register.
	id                   string
	heartbeat, leaseTime time.Duration
	times                times
}

// obey follows a directive for the worker. The attempt follows those for its job.
func (w *worker) obey(d client.Directive) {
	reason := "the control plane asked for it"
	if d.Reason != nil {
		reason = *d.Reason
	}
	switch d.Action {
	case client.DirectiveActionDrain:
		var deadline time.Time
		if d.Deadline != nil {
			deadline = w.times.ours(*d.Deadline)
		}
		if !closed(w.going.draining) {
			w.log.Info("draining", "reason", reason, "deadline", deadline)
		}
		w.going.drain(deadline)
	case client.DirectiveActionTerminate:
		w.going.hurry(time.Now())
	}
}
