package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Handle names work that goes on outside the agent, such as the id of a job on another server.
// If this attempt is lost, the next one gets the newest handle in its Start, so that it adopts
// the work instead of starting it again. It is opaque, and may be a secret: agents do not log it.
type Handle struct {
	// Value has at most 2,000 bytes, without NUL characters. An empty one clears the handle: the
	// next attempt has nothing to adopt. The end of the job clears it, too.
	Value string `json:"value"`
	// Ack asks for the command stored, once the control plane has the handle.
	Ack bool `json:"ack,omitempty"`
}

func (*Handle) name() string { return "handle" }

// check does not quote the value. JSON's decoder replaces bytes that are not UTF-8 by U+FFFD: the
// handle would no longer name the work.
func (m *Handle) check() error {
	if strings.ContainsRune(m.Value, 0) || strings.ContainsRune(m.Value, utf8.RuneError) || !utf8.ValidString(m.Value) {
		return errors.New("the value is not UTF-8 text without NUL characters; encode other bytes, for example in base64")
	}
	return checkText(m.Value)
}

// StoreHandle stores a text that names work which goes on outside this process, such as the id
// of a job on another server, as soon as there is one. If this attempt is lost, the next one
// gets it as Start.Handle. A newer handle replaces it, and an empty one clears it. It returns an
// error, and stores nothing, if the value has more than 2,000 bytes or is not UTF-8 text without
// NUL characters.
func (j *Job) StoreHandle(value string) error { return j.sendHandle(&Handle{Value: value}) }

// KeepHandle stores a handle as StoreHandle does, and returns when the control plane has it. Work
// that begins afterwards is not lost with this process. It returns ctx's error if ctx ends first.
func (j *Job) KeepHandle(ctx context.Context, value string) error {
	stored := make(chan struct{})
	j.server.awaitStored(stored)
	if err := j.sendHandle(&Handle{Value: value, Ack: true}); err != nil {
		return err
	}
	select {
	case <-stored:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (j *Job) sendHandle(handle *Handle) error {
	if err := handle.check(); err != nil {
		return fmt.Errorf("store a handle: %w", err)
	}
	j.server.send(handle)
	return nil
}
