package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
)

// eventPayload is the payload of the events that the demo shows.
type eventPayload struct {
	Step      int     `json:"step"`
	Percent   float64 `json:"percent"`
	SizeBytes int64   `json:"sizeBytes"`
	Worker    string  `json:"worker"`
}

// printEvents prints the new events.
func (d *demo) printEvents(ctx context.Context, history *client.JobHistory) error {
	for _, edge := range history.Events.Edges {
		e := edge.Node
		if e.Seq <= d.lastSeq {
			continue
		}
		d.lastSeq = e.Seq
		var p eventPayload
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return fmt.Errorf("read event %d of %s: %w", e.Seq, d.job, err)
		}
		switch e.Type {
		case client.JobEventTypeCheckpointed:
			d.story(e.CreatedAt, "its work is stored: checkpoint at %.0f %%, %s", p.Percent, output.Size(p.SizeBytes))
		case client.JobEventTypeReleased:
			d.story(e.CreatedAt, "%s hands the job back", d.names[d.preempted])
		case client.JobEventTypeLost:
			d.story(e.CreatedAt, "the job was taken back from %s", d.names[d.preempted])
		case client.JobEventTypeLeased:
			name, err := d.nameOf(ctx, p.Worker)
			if err != nil {
				return err
			}
			d.story(e.CreatedAt, "worker %s takes it", name)
		case client.JobEventTypeResumed:
			d.story(e.CreatedAt, "it goes on from step %d (%.0f %%)", p.Step, p.Percent)
		}
	}
	return nil
}

func (d *demo) nameOf(ctx context.Context, worker string) (string, error) {
	if name, known := d.names[worker]; known {
		return name, nil
	}
	w, err := d.operator.Worker(ctx, worker)
	if err != nil {
		return "", connect.WithAdvice(err)
	}
	return d.name(w), nil
}

// name returns the name of a worker: its machine, with the worker's number on it if it is not the first.
func (d *demo) name(w *client.Worker) string {
	if name, known := d.names[w.Id]; known {
		return name
	}
	name := output.Clean(w.ProviderInstanceId)
	if w.Slot > 0 {
		name += fmt.Sprintf(" no. %d", w.Slot+1)
	}
	d.names[w.Id] = name
	return name
}

// check returns every deviation from what the demo promises.
func (d *demo) check(h *client.JobHistory) error {
	var wrong []error
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	expect(d.preempted != "", "the job ended before its worker was preempted")
	expect(h.Status == client.JobStatusCompleted, "the job is %s, not COMPLETED", h.Status)
	if len(h.Attempts) < 2 {
		return errors.Join(append(wrong, fmt.Errorf("there are %d attempts, not two", len(h.Attempts)))...)
	}
	first, last := attemptOf(h, 1), attemptOf(h, h.AttemptNo)
	expect(first.Status == client.AttemptStatusReleased, "the first attempt is %s, not RELEASED", first.Status)
	expect(first.FailureClass != nil && *first.FailureClass == client.FailureClassPreempted,
		"the first attempt ended with %s, not PREEMPTED", output.OrDash(first.FailureClass))
	expect(first.Worker != nil && first.Worker.Id == d.preempted, "the first attempt was not the preempted worker's")
	expect(last.Worker != nil && last.Worker.Id != d.preempted, "the last attempt was not another worker's")
	expect(last.ResumedFromStep != nil && *last.ResumedFromStep > 0, "the last attempt resumed from step %s, not from a checkpoint",
		output.OrDash(last.ResumedFromStep))
	expect(d.since(h, client.JobEventTypeStarted) > 0, "no event tells when the job ran again")
	return errors.Join(wrong...)
}

func attemptOf(h *client.JobHistory, no int) client.Attempt {
	for _, a := range h.Attempts {
		if a.AttemptNo == no {
			return a
		}
	}
	return client.Attempt{}
}

// since returns the seconds from the notice to the newest attempt's first event of a
// type, or 0. The server runs on this machine, so both use the same clock.
func (d *demo) since(h *client.JobHistory, t client.JobEventType) float64 {
	newest := attemptOf(h, h.AttemptNo).Id
	for _, edge := range h.Events.Edges {
		if e := edge.Node; e.Type == t && e.AttemptId != nil && *e.AttemptId == newest {
			return e.CreatedAt.Sub(d.noticed).Seconds()
		}
	}
	return 0
}
