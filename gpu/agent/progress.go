package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/agent/redact"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/tracing"
)

// reporter sends the job's progress to the control plane: only the newest state, and
// no more often than configured.
type reporter struct {
	*attemptLease
	secrets *redact.Redactor
	every   time.Duration // the shortest time between two reports
	changed chan struct{}
	// now receives when a report must not wait for the interval.
	now chan struct{}

	sending     chan struct{} // full while a report is sent
	mu          sync.Mutex
	newest      client.ProgressInput
	resumedFrom *string // until it was reported
	resumedNote *string
	load        *client.ModelLoadInput // until it was reported

	traced   client.Phase // the phase of the current span
	endPhase func(error)  // ends that span
}

func newReporter(held *attemptLease, secrets *redact.Redactor, every time.Duration) *reporter {
	return &reporter{
		attemptLease: held, secrets: secrets, every: every,
		changed: make(chan struct{}, 1), now: make(chan struct{}, 1), sending: make(chan struct{}, 1),
	}
}

// phase reports what the agent itself is doing, at the render's percentage.
func (r *reporter) phase(phase client.Phase, message string) {
	r.set(func(p *client.ProgressInput) { p.Phase, p.Message, p.EtaSeconds = phase, &message, nil })
	select {
	case r.now <- struct{}{}:
	default:
	}
}

// runtime reports what the runtime says. The percentage of a load is not the job's: it is
// shown in the message.
func (r *reporter) runtime(m *runtime.Progress) {
	if m.Phase == runtime.PhaseLoadingModel {
		message := r.secrets.Clean(m.Message)
		if m.Percent > 0 {
			message = fmt.Sprintf("%s (%.0f %%)", message, m.Percent)
		}
		r.set(func(p *client.ProgressInput) {
			*p = client.ProgressInput{Percent: p.Percent, Phase: client.PhaseLoadingModel, Message: &message}
		})
		return
	}
	r.set(func(p *client.ProgressInput) {
		*p = client.ProgressInput{
			Percent: m.Percent, Phase: client.Phase(m.Phase), Message: client.Optional(r.secrets.Clean(m.Message)),
			Step: client.Optional(m.Step), TotalSteps: client.Optional(m.TotalSteps),
			Frame: client.Optional(m.Frame), TotalFrames: client.Optional(m.TotalFrames), EtaSeconds: client.Optional(m.ETASeconds),
		}
	})
}

// loaded reports how long the worker took to load the job's model, and to download its weights.
func (r *reporter) loaded(l *host.LoadTimes) {
	r.mu.Lock()
	r.load = &client.ModelLoadInput{LoadSeconds: l.Load.Seconds(), FetchSeconds: l.Fetch.Seconds()}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// resuming shows from where the job will go on, if the checkpoint restores.
func (r *reporter) resuming(percent float64) { r.resumed("", percent, "") }

// resumed reports the checkpoint from which the job resumed, and the runtime's note about it.
func (r *reporter) resumed(artifactID string, percent float64, note string) {
	note = r.secrets.Clean(note)
	r.set(func(p *client.ProgressInput) {
		r.resumedFrom, r.resumedNote = client.Optional(artifactID), client.Optional(note)
		*p = client.ProgressInput{Percent: percent, Phase: client.PhaseResuming,
			Message: new(fmt.Sprintf("resuming from checkpoint at %.0f %%", percent))}
	})
}

func (r *reporter) set(change func(*client.ProgressInput)) {
	r.mu.Lock()
	change(&r.newest)
	r.trace(r.newest.Phase)
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// trace makes each phase of the attempt a span. The caller holds mu.
func (r *reporter) trace(phase client.Phase) {
	if phase == r.traced || !tracing.Enabled() {
		return
	}
	r.over()
	r.traced = phase
	name := strings.ToLower(strings.ReplaceAll(string(phase), "_", " "))
	_, r.endPhase = tracing.Start(r.owned, name, tracing.String("reelay.attempt", r.fence.AttemptID))
}

// over ends the span of the current phase. The caller holds mu.
func (r *reporter) over() {
	if r.endPhase != nil {
		r.endPhase(nil)
		r.endPhase, r.traced = nil, ""
	}
}

// close ends the span of the last phase.
func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over()
}

// run sends reports until ctx ends. A failed report is replaced by the next one.
func (r *reporter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		}
		r.send(ctx)
		select {
		case <-r.now:
		case <-time.After(r.every):
		case <-ctx.Done():
			return
		}
	}
}

// send sends the newest state.
func (r *reporter) send(ctx context.Context) {
	select {
	case r.sending <- struct{}{}:
		defer func() { <-r.sending }()
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	in, resumedFrom, note, load := r.newest, r.resumedFrom, r.resumedNote, r.load
	r.mu.Unlock()
	in.AttemptId, in.FencingToken, in.ResumedFrom = r.fence.AttemptID, r.fence.FencingToken, resumedFrom
	in.ResumedNote, in.Load = note, load

	err := r.fenced(ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
		ctx, cancel := context.WithTimeout(ctx, beatTimeout)
		defer cancel()
		return r.api.ReportProgress(ctx, in)
	})
	// A lease that is gone either ends ctx, or the attempt's own end overtook this report.
	if err != nil && ctx.Err() == nil && !gone(err) {
		r.log.Warn("progress was refused", "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.resumedFrom == resumedFrom {
		r.resumedFrom, r.resumedNote = nil, nil
	}
	if ctx.Err() == nil && r.load == load {
		r.load = nil // also if it was refused: an API of an older release does not know it
	}
}

// lastReport is how long an attempt that ends waits for its last report.
const lastReport = 5 * time.Second

// flush reports the checkpoint from which the job resumed, and how long its model was loaded, if
// that was not reported yet. A job that ends soon after would not show it.
func (r *reporter) flush(ctx context.Context) {
	r.mu.Lock()
	pending := r.resumedFrom != nil || r.load != nil
	r.mu.Unlock()
	if pending {
		ctx, cancel := context.WithTimeout(ctx, lastReport)
		defer cancel()
		r.send(ctx)
	}
}
