package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/text"
)

// pod is what the provider reads of a pod.
type pod struct {
	Metadata struct {
		Name                       string
		UID                        string
		ResourceVersion            string
		CreationTimestamp          time.Time
		DeletionTimestamp          *time.Time
		DeletionGracePeriodSeconds int64
		Labels                     map[string]string
		OwnerReferences            []struct {
			Kind, Name string
			Controller bool
		}
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase, Reason, Message string
		NominatedNodeName      string
		Conditions             []condition
		InitContainerStatuses  []containerStatus
		ContainerStatuses      []containerStatus
	}
}

type condition struct {
	Type, Status, Reason, Message string
	LastTransitionTime            time.Time
}

type containerStatus struct {
	Name  string
	State struct {
		Waiting    *struct{ Reason, Message string }
		Running    *struct{}
		Terminated *struct {
			ExitCode, Signal int
			Reason, Message  string
		}
	}
}

// condition returns the condition of a type if it has this status, or nil.
func (p *pod) condition(kind, status string) *condition {
	at := slices.IndexFunc(p.Status.Conditions, func(c condition) bool { return c.Type == kind && c.Status == status })
	if at < 0 {
		return nil
	}
	return &p.Status.Conditions[at]
}

// stranger returns why a pod does not belong to the provider, or "".
func (p *pod) stranger(labels map[string]string) string {
	for name, value := range labels {
		if p.Metadata.Labels[name] != value {
			return "it does not have the label " + name + "=" + value
		}
	}
	for _, owner := range p.Metadata.OwnerReferences {
		if owner.Controller {
			return "it belongs to the " + text.Clip(text.Printable(owner.Kind+" "+owner.Name), 128)
		}
	}
	return ""
}

// tookAway are the reasons of pods that ended because the cluster needed or lost their node. "Evicted" alone is not one:
// a pod that wrote more than its own limit is evicted, too, and only one that had to leave because its node ran short
// has the condition DisruptionTarget (Kubernetes 1.26 and later).
var tookAway = []string{"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "Preempted"}

// reclaimed reports whether the cluster took the pod away: it was evicted, preempted, or lost with its node. Kueue has a
// condition of its own.
func (p *pod) reclaimed() bool {
	return p.condition("DisruptionTarget", "True") != nil || p.condition("TerminationTarget", "True") != nil ||
		slices.Contains(tookAway, p.Status.Reason)
}

// gated reports whether the pod is held back from the scheduler, such as by Kueue.
func (p *pod) gated() bool {
	c := p.condition("PodScheduled", "False")
	return c != nil && c.Reason == "SchedulingGated"
}

// startLimit is how long a container may fail to start. Registries fail in passing, and Secrets may be written a little
// later than the pod.
const startLimit = time.Minute

// hopeless are the reasons for which a container that waits does not start, with whether a wait may help.
var hopeless = map[string]bool{
	"InvalidImageName": false, "ErrImageNeverPull": false, "ErrImagePull": true, "ImagePullBackOff": true, "ImageInspectError": true,
	"RegistryUnavailable": true, "SignatureValidationFailed": true, "CreateContainerConfigError": true, "CreateContainerError": true,
	"RunContainerError": true,
}

// seen is what lists before had of a pod.
type seen struct {
	held    time.Time // when it was held back for the last time, or zero
	failing time.Time // since when a container of it does not start, or zero
}

// instance describes a pod for the scaler, at a time of the cluster. A pod in a phase that is not known here runs: then
// nobody takes it for gone. So does one whose agent runs, although a container beside it still waits.
func (p *pod) instance(now time.Time, before seen, s *Settings) fleet.Instance {
	i := fleet.Instance{ID: p.Metadata.Name, State: fleet.InstanceRunning, CreatedAt: p.Metadata.CreationTimestamp}
	agent := p.agent()
	switch {
	case p.Status.Phase == "Succeeded", p.Status.Phase == "Failed":
		i.State, i.Reclaimed = fleet.InstanceEnded, p.reclaimed()
		if i.Err = p.turnedAway(); i.Err == nil && !i.Reclaimed {
			i.Cause = p.cause(agent)
		}
	case p.Metadata.DeletionTimestamp != nil:
		i.State, i.Reclaimed = fleet.InstanceEnding, p.reclaimed()
	case agent != nil && agent.State.Terminated != nil: // a container beside it keeps the pod
		i.State, i.Cause = fleet.InstanceEnded, p.cause(agent)
	case p.Status.Phase == "Pending" && (agent == nil || agent.State.Running == nil):
		i.State = fleet.InstanceBooting
		i.Cause, i.Err = p.unstarted(now, before, s)
		if i.Err != nil {
			i.State = fleet.InstanceEnded
		}
	}
	return i
}

// agent returns the state of the container of the agent, or nil.
func (p *pod) agent() *containerStatus {
	at := slices.IndexFunc(p.Status.ContainerStatuses, func(c containerStatus) bool { return c.Name == agentContainer })
	if at < 0 {
		return nil
	}
	return &p.Status.ContainerStatuses[at]
}

// turnedAway returns an error if the node refused a pod that had been scheduled on it: others took its last GPU.
func (p *pod) turnedAway() error {
	reason := p.Status.Reason
	if p.agent() != nil || !strings.HasPrefix(reason, "OutOf") && reason != "UnexpectedAdmissionError" && reason != "NodeAffinity" {
		return nil
	}
	return fleet.Refuse(fleet.Stockout, "the node refused the pod: %s", words(reason, p.Status.Message))
}

// unstarted returns what a pod that has not started waits for, or an error if that will not come.
func (p *pod) unstarted(now time.Time, before seen, s *Settings) (waits string, err error) {
	if c := p.condition("PodScheduled", "False"); c != nil {
		waits = words(c.Reason, c.Message)
		since := c.LastTransitionTime
		if before.held.After(since) { // the condition is as old as the pod, which only now has been refused
			since = before.held
		}
		// A nominated node is being cleared for the pod.
		if c.Reason == "Unschedulable" && p.Status.NominatedNodeName == "" && s.patience() > 0 && now.Sub(since) >= s.patience() {
			return "", fleet.Refuse(fleet.Stockout, "%s", cmp.Or(waits, "the cluster has no node for the pod"))
		}
		return waits, nil
	}
	c := p.failing()
	if c == nil {
		return "", nil
	}
	waits = fmt.Sprintf("the container %s does not start: %s", text.Clip(c.Name, 63), words(c.State.Waiting.Reason, c.State.Waiting.Message))
	if mayPass := hopeless[c.State.Waiting.Reason]; !mayPass || !before.failing.IsZero() && now.Sub(before.failing) >= startLimit {
		return "", fleet.Refuse(fleet.Invalid, "%s", waits)
	}
	return waits, nil
}

// failing returns the first container that does not start for a reason that rarely passes, or nil.
func (p *pod) failing() *containerStatus {
	all := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	at := slices.IndexFunc(all, func(c containerStatus) bool {
		if c.State.Waiting == nil {
			return false
		}
		_, known := hopeless[c.State.Waiting.Reason]
		return known
	})
	if at < 0 {
		return nil
	}
	return &all[at]
}

// cause returns why a pod ended that nobody took away.
func (p *pod) cause(agent *containerStatus) string {
	if agent == nil || agent.State.Terminated == nil || p.Status.Reason == "Evicted" {
		return words(p.Status.Reason, p.Status.Message)
	}
	end := agent.State.Terminated
	how := fmt.Sprintf("its agent ended with the status %d", end.ExitCode)
	if end.Reason != "" && end.Reason != "Error" && end.Reason != "Completed" {
		how += " (" + text.Clip(text.Printable(end.Reason), 64) + ")"
	}
	return words(how, lastLine(end.Message))
}

func lastLine(message string) string {
	message = strings.TrimSpace(message)
	return message[strings.LastIndexByte(message, '\n')+1:]
}

// words joins a reason and a message of the cluster.
func words(reason, message string) string {
	var parts []string
	for _, part := range []string{reason, message} {
		if part = strings.TrimSpace(text.Printable(part)); part != "" {
			parts = append(parts, part)
		}
	}
	return text.Clip(strings.Join(parts, ": "), maxMessage)
}
