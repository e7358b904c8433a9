package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// The verbs are a program's only argument.
const (
	verbCreate  = "create"
	verbList    = "list"
	verbDelete  = "delete"
	verbPreempt = "preempt"
)

// request is the one JSON object that a program reads from its standard input.
type request struct {
	Verb      string            `json:"verb"`
	RequestID string            `json:"requestId,omitempty"` // of a create
	Pool      requestPool       `json:"pool"`
	Options   json.RawMessage   `json:"options"` // of the pool's settings
	Instances []requestInstance `json:"instances,omitempty"`
	// Environment are the variables that the agents need, of a create. It holds the key.
	Environment   map[string]string `json:"environment,omitempty"`
	NoticeSeconds *int              `json:"noticeSeconds,omitempty"` // of a preempt
}

type requestPool struct {
	ID            models.PoolID        `json:"id"`
	Name          string               `json:"name"`
	Region        string               `json:"region"`
	Zones         []string             `json:"zones"`
	MachineType   string               `json:"machineType"`
	GPUType       string               `json:"gpuType"`
	CapacityClass models.CapacityClass `json:"capacityClass"`
	Models        []string             `json:"models"`
}

type requestInstance struct {
	ID   string `json:"id"`
	Zone string `json:"zone,omitempty"`
	// Arguments are those of the agent, of a create.
	Arguments []string `json:"arguments,omitempty"`
}

func describe(pool *capacity.Pool) requestPool {
	return requestPool{
		ID: pool.ID, Name: pool.Name, Region: pool.Region, Zones: append([]string{}, pool.Zones...),
		MachineType: pool.MachineType, GPUType: pool.GPUType,
		CapacityClass: pool.CapacityClass, Models: pool.Models,
	}
}

// answer is a line of a program's standard output: what became of an instance, or, of a list,
// an instance.
type answer struct {
	ID    string       `json:"id"`
	Zone  string       `json:"zone"`
	Error *answerError `json:"error"`

	State     fleet.InstanceState `json:"state"`
	CreatedAt time.Time           `json:"createdAt"`
	Reclaimed bool                `json:"reclaimed"`
}

type answerError struct {
	Class          fleet.ErrorClass `json:"class"`
	Message        string           `json:"message"`
	ZonesAvailable []string         `json:"zonesAvailable"`
}

// classGone is the class of a preempt's error if the machine does not run any more.
const classGone fleet.ErrorClass = "GONE"

// statuses are the exit statuses of programs that mean a class. Another one is Transient.
var statuses = map[int]fleet.ErrorClass{10: fleet.Stockout, 11: fleet.Quota, 12: fleet.Permission, 13: fleet.Invalid}

// unknownVerb is the exit status of a program that does not know a verb.
const unknownVerb = 14

var states = []fleet.InstanceState{fleet.InstanceBooting, fleet.InstanceRunning, fleet.InstanceEnding, fleet.InstanceEnded}

// maxZones is how many zones an answer may name.
const maxZones = 50

// readAnswer reads a line. Its errors complete the sentence "a line of its output …".
func readAnswer(line []byte, verb string) (answer, error) {
	var a answer
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&a)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = fmt.Errorf("something follows the object")
		}
	}
	if err != nil {
		return a, fmt.Errorf("is not the JSON object of one instance: %w", err)
	}
	return a, a.check(verb)
}

func (a *answer) check(verb string) error {
	switch {
	case !text.Valid(a.ID, 1, text.MaxName):
		return fmt.Errorf("has no id of 1 to %d printable characters", text.MaxName)
	case !text.Valid(a.Zone, 0, text.MaxName):
		return fmt.Errorf("has a zone that is longer than %d printable characters", text.MaxName)
	case verb == verbList && !slices.Contains(states, a.State):
		return fmt.Errorf("has the state %q: it must be BOOTING, RUNNING, ENDING or ENDED", text.Clip(string(a.State), 32))
	case verb == verbList && a.Error != nil:
		return fmt.Errorf("has an error, which a list cannot: end with a status instead")
	case a.Error == nil:
		return nil
	case !slices.Contains(fleet.ErrorClasses, a.Error.Class) && (a.Error.Class != classGone || verb != verbPreempt):
		return fmt.Errorf("has an error of the class %q: it must be STOCKOUT, QUOTA, PERMISSION, INVALID or TRANSIENT",
			text.Clip(string(a.Error.Class), 32))
	case len(a.Error.ZonesAvailable) > maxZones || slices.ContainsFunc(a.Error.ZonesAvailable,
		func(z string) bool { return !text.Valid(z, 1, text.MaxName) }):
		return fmt.Errorf("has zonesAvailable that are not up to %d names", maxZones)
	}
	return nil
}
