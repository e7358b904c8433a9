// Package remote is the runtime of engines: servers that render, such as ComfyUI, and that know
// nothing of leases, checkpoints or restarts. It starts a job on an engine once, follows it,
// adopts it after the loss of a worker, starts it again only if the engine has lost it, stops it
// when it is cancelled, and fetches the result.
//
// An adapter, one package below, says how an engine of one kind is spoken to. It implements
// [Engine], and the optional interfaces beside it where the kind can do more.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/provider"
)

// Engine is one server of a kind. Its methods may be called at the same time. They return
// *Unreachable if there was no answer, *Confused if the answer is not one of this kind, and
// *runtime.Failure if the engine refuses. All methods end soon after ctx does.
type Engine interface {
	// Health asks the engine how it is.
	Health(ctx context.Context) (Health, error)
	// Prepare checks the job and copies its files to the engine. The returned function starts the
	// work: it is called once at a time, and again only if the engine surely did not start it. It
	// returns the engine's name for the work.
	Prepare(ctx context.Context, key string, job *Job) (submit func(context.Context) (ref string, err error), err error)
	// Find looks for work that was submitted under key, whose answer was lost. since is the
	// engine's own time before the submit, in seconds since 1970.
	Find(ctx context.Context, key string, since int64, job *Job) (ref string, found Found, err error)
	// Poll asks for the state of the work.
	Poll(ctx context.Context, ref string, job *Job) (Status, error)
	// Cancel asks the engine to stop the work.
	Cancel(ctx context.Context, ref string, job *Job) (Stop, error)
	// Fetch opens a file of the work from an offset in bytes. size is that of the whole file, or
	// -1. An engine that cannot begin at the offset returns a smaller one.
	Fetch(ctx context.Context, file File, offset int64) (body io.ReadCloser, at, size int64, err error)
	// Remove deletes what the engine keeps of the work. It is called once the job is complete.
	Remove(ctx context.Context, ref string) error
}

// Admitter is an engine whose submits wait for a turn.
type Admitter interface {
	// Admit waits until one submit may be made. Nothing is stored of the job meanwhile: nothing of it can have begun.
	Admit(ctx context.Context) error
}

// Biller is an engine whose work is billed.
type Biller interface {
	// Asked returns what the submit of the job asks for, by which it is billed.
	Asked(job *Job) (*provider.Asked, error)
}

// ErrLater is the refusal of a submit because the engine has no room. Nothing has begun; Admit says when to try again.
var ErrLater = errors.New("the engine has no room for the job now")

// Watcher is an engine that sends events. They are hints: Poll decides the state.
type Watcher interface {
	// Watch calls hint for each event. It returns why it ended: ctx, or a broken connection.
	Watch(ctx context.Context, key string, job *Job, hint func(Hint)) error
}

// Loader is an engine that can say beforehand whether it has what a model needs.
type Loader interface {
	// Load returns a *runtime.Failure with Lacks if something is missing.
	Load(ctx context.Context, model string, settings json.RawMessage) error
}

// Provider is an engine that can say whether it still lacks what it lacked.
type Provider interface {
	// Has reports whether the engine now has what a Failure.Lacks of it names.
	Has(ctx context.Context, lacks string) (bool, error)
}

// Salvager is an engine whose files outlive its memory.
type Salvager interface {
	// Salvage returns the files of work whose engine has forgotten it. They may be incomplete.
	Salvage(ctx context.Context, key string, job *Job) ([]File, error)
}

// Health is the state of an engine.
type Health struct {
	// Epoch changes when the engine restarts and so forgets its work; "" if it has none.
	Epoch string
	// Busy reports whether it computes or has work that waits.
	Busy bool
	// Loading is why it takes no work yet, such as "it loads its model"; or "".
	Loading string
	Version string
	// Models are the names of the models that it serves, if it has a list.
	Models []string
	// GPU is the name of its GPU, and Memory and Free are bytes of the GPU's memory, if the engine reports them.
	GPU          string
	Memory, Free int64
	// Now is the engine's clock, in seconds since 1970, or 0.
	Now int64
}

// Job is a job as adapters see it.
type Job struct {
	ID, Model, Type, Prompt string
	// Params are the parameters; numbers are json.Number.
	Params map[string]any
	// Inputs are the paths of the job's files, by parameter, see runtime.Start.
	Inputs   map[string]string
	Settings json.RawMessage
	// Log adds a line to the job's log.
	Log func(level, message string)
}

// State is the state of work on an engine.
type State string

// The states of work. Gone means that the engine answers and knows nothing of it.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Gone      State = "gone"
)

// ended reports whether the engine no longer works on it.
func (s State) ended() bool { return s != Waiting && s != Running }

// Status is what an engine says of work.
type Status struct {
	State State
	// Done is the finished part, from 0 to 1, or negative if it is unknown.
	Done        float64
	Step, Steps int
	Message     string
	// Phase is the phase of the job; "" means that it renders.
	Phase runtime.Phase
	// Files are the results of work that succeeded, the best first.
	Files  []File
	Output json.RawMessage
	// Failure says why work failed.
	Failure *runtime.Failure
	// Paid means that the work is not started again only because its files cannot be fetched.
	Paid bool
}

// File is a result of work on an engine.
type File struct {
	// Name is its name at the engine, whose extension decides its media type.
	Name string
	// Ref is how the adapter finds it.
	Ref string
	// Inline is its content, if the engine sent that already.
	Inline []byte
	// Most is how many bytes are fetched at most; 0 means 16 GiB.
	Most int64
}

// Found is the outcome of a search for work.
type Found string

// The outcomes of Find. Unknown means that the engine cannot say it now. Doubt means that it never will, and
// that the work may be paid twice if it is submitted again.
const (
	FoundWork    Found = "found"
	FoundNothing Found = "nothing"
	FoundUnknown Found = "unknown"
	FoundDoubt   Found = "doubt"
)

// Stop is what an engine says when it is asked to stop work.
type Stop string

// The answers of Cancel. Impossible means that the engine computes on.
const (
	Stopped    Stop = "stopped"
	Accepted   Stop = "accepted"
	Impossible Stop = "impossible"
)

// Hint is an event of an engine.
type Hint struct {
	// Poll asks for a poll at once.
	Poll bool
	// Progress replaces what the last poll said of it. It is nil if there is none.
	Progress *Status
	// Preview is a picture of the present state, and Extension its format, such as ".jpg".
	Preview   []byte
	Extension string
}
