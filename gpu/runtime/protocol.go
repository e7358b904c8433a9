package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// ProtocolVersion is the newest version of the protocol. Runtimes of older versions get only
// what their version has.
const ProtocolVersion = 2

const (
	maxLine   = 1 << 20  // bytes of a line, including the newline
	maxTexts  = 2000     // bytes of a message for people
	maxDetail = 16 << 10 // bytes of a failure's detail
	maxInfo   = 16_000   // bytes of a checkpoint's info, encoded as the agent sends it
	maxCount  = math.MaxInt32

	maxVersion = 100    // bytes of the version of a model
	maxLacks   = 300    // bytes of what a worker lacks
	maxFetch   = 86_400 // seconds
)

// Phase is the stage of a job as shown to users. The values are those of the API.
type Phase string

// The phases that a runtime can report. The agent reports the others.
const (
	PhaseLoadingModel Phase = "LOADING_MODEL"
	PhaseResuming     Phase = "RESUMING"
	PhaseRendering    Phase = "RENDERING"
	PhaseEncoding     Phase = "ENCODING"
	// The phases of a job at a hosted provider.
	PhaseSubmitted      Phase = "SUBMITTED"
	PhaseGenerating     Phase = "GENERATING"
	PhasePostProcessing Phase = "POST_PROCESSING"
)

// MaxOutput is the largest output of a job that the control plane stores, in bytes.
const MaxOutput = 256 << 10

// FailureClass decides what happens to a job after a failure. The values are
// those of the API.
type FailureClass string

// The classes that a runtime can report. The control plane sets the others.
const (
	Transient           FailureClass = "TRANSIENT"
	RateLimited         FailureClass = "RATE_LIMITED"
	ProviderUnavailable FailureClass = "PROVIDER_UNAVAILABLE"
	Timeout             FailureClass = "TIMEOUT"
	// EndpointFailed is for a server that the job itself names: its owner must act.
	EndpointFailed    FailureClass = "ENDPOINT_FAILED"
	ModelCrash        FailureClass = "MODEL_CRASH"
	OutOfMemory       FailureClass = "OUT_OF_MEMORY"
	CheckpointCorrupt FailureClass = "CHECKPOINT_CORRUPT"
	InvalidInput      FailureClass = "INVALID_INPUT"
	ContentPolicy     FailureClass = "CONTENT_POLICY"
	Unauthorized      FailureClass = "UNAUTHORIZED"
	// SubmitUnknown is for a paid submit that was not answered, of which nobody can say whether it began.
	SubmitUnknown FailureClass = "SUBMIT_UNKNOWN"
)

// DefectiveResult is the class of a result that is not what the job asked for. The agent checks
// videos itself. A runtime reports what only it can see, such as the film of another job.
const DefectiveResult FailureClass = "DEFECTIVE_RESULT"

// Start is the order to do one job. It ends with exactly one Result, Failure or
// Cancelled.
type Start struct {
	Job         string          `json:"job"`
	Model       string          `json:"model"`
	Type        string          `json:"type"` // the kind of work, such as video.generate
	Params      json.RawMessage `json:"params,omitempty"`
	Prompt      string          `json:"prompt"`
	Workdir     string          `json:"workdir"` // absolute, exists, belongs to this job alone
	Checkpoints []Restorable    `json:"checkpoints,omitempty"`
	// Inputs maps the name of a parameter, such as referenceImage, to its file: a
	// complete file in Workdir.
	Inputs map[string]string `json:"inputs,omitempty"`

	// Version and Settings are those of the model. Runtimes of version 1 do not get them.
	Version  int             `json:"version,omitempty"`
	Settings json.RawMessage `json:"settings,omitempty"`

	// DraftSteps is the step after which a draft ends: with a checkpoint of that step, and a
	// Result that has a preview and no video. It is 0 for other jobs. Only runtimes of version 2
	// get drafts.
	DraftSteps int `json:"draftSteps,omitempty"`
	// Determinism is strict if a checkpoint that other software or another GPU made must be
	// rejected. Otherwise the runtime uses it, and says so in the note of Resumed.
	Determinism string `json:"determinism,omitempty"`
	// Handle is what an earlier attempt of this job stored last, or "". The job should adopt the
	// work that it names. Only runtimes of version 2 get it.
	Handle string `json:"handle,omitempty"`
	// Traceparent is the W3C traceparent of the attempt's span, or "": the parent of the spans that
	// the runtime makes. Only runtimes of version 2 get it.
	Traceparent string `json:"traceparent,omitempty"`
}

// Values of Start.Determinism.
const (
	Strict     = "strict"
	BestEffort = "best-effort"
)

// Model is a model as the catalogue describes it.
type Model struct {
	Name string `json:"model"`
	// Version is the catalogue's version of the entry; Settings is an object for the runtime,
	// such as the folder of the weights. Runtimes of version 1 do not get them.
	Version  int             `json:"version,omitempty"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

// Restorable is a checkpoint from which a job can resume. Start lists the newest
// first.
type Restorable struct {
	Path string `json:"path"`
	Step int    `json:"step"`
}

// command is one line to the runtime, with exactly one field set.
type command struct {
	Load       *Model    `json:"load,omitempty"`
	Start      *Start    `json:"start,omitempty"`
	Checkpoint *struct{} `json:"checkpoint,omitempty"`
	Cancel     *Cancel   `json:"cancel,omitempty"`
	Stored     *struct{} `json:"stored,omitempty"`
	Shutdown   *struct{} `json:"shutdown,omitempty"`
}

// Cancel is the order to stop the job.
type Cancel struct {
	// Keep means that the job goes on elsewhere: work that its handle names must not be stopped,
	// since another worker adopts it.
	Keep bool `json:"keep,omitempty"`
}

// Message is a message from a runtime. The types below with these methods
// implement it.
type Message interface {
	// name is the message's key on the wire.
	name() string
	// check returns what is wrong with the message's content.
	check() error
}

// Ready is a runtime's first message.
type Ready struct {
	Protocol int    `json:"protocol"`
	Runtime  string `json:"runtime"` // its name and version, for people
	// Models lists the models that it can run. Since version 2 an empty list means any model
	// whose settings it understands.
	Models []Offer `json:"models"`
}

// Offer is a model that a runtime can run. It is a name, or since version 2 an object.
type Offer struct {
	Name string `json:"name"`
	// Version is the runtime's own version of the model, for people.
	Version string `json:"version,omitempty"`
}

// Offers returns offers of models without a version.
func Offers(names ...string) []Offer {
	var all []Offer
	for _, name := range names {
		all = append(all, Offer{Name: name})
	}
	return all
}

// UnmarshalJSON reads a name or an object.
func (o *Offer) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &o.Name)
	}
	type plain Offer
	return json.Unmarshal(data, (*plain)(o))
}

// MarshalJSON writes an offer without a version as a name, as version 1 had it.
func (o Offer) MarshalJSON() ([]byte, error) {
	if o.Version == "" {
		return json.Marshal(o.Name)
	}
	type plain Offer
	return json.Marshal(plain(o))
}

// Loaded answers a load: the model is in memory.
type Loaded struct {
	Model string `json:"model"`
	// FetchSeconds is how much of the load was the download of the weights. It is 0 if they
	// were on the machine, or the runtime does not know. At most a day.
	FetchSeconds float64 `json:"fetchSeconds,omitempty"`
}

// Progress reports the progress of a job. Percent can decrease; Phase and Message
// then say why.
type Progress struct {
	Percent     float64 `json:"percent"` // 0 to 100
	Phase       Phase   `json:"phase"`
	Message     string  `json:"message,omitempty"`
	Step        int     `json:"step,omitempty"`
	TotalSteps  int     `json:"totalSteps,omitempty"`
	Frame       int     `json:"frame,omitempty"`
	TotalFrames int     `json:"totalFrames,omitempty"`
	ETASeconds  float64 `json:"etaSeconds,omitempty"`
}

// Checkpoint names a complete, closed file from which the job can resume. An
// empty Path means that there is nothing worth saving yet.
type Checkpoint struct {
	Path    string  `json:"path,omitempty"`
	Step    int     `json:"step"`
	Percent float64 `json:"percent"`
	// Info is the runtime's own description of the file, such as its format and
	// what software can restore it. It is kept with the file.
	Info json.RawMessage `json:"info,omitempty"`
}

// CheckpointRejected reports that a checkpoint in the Start message could not be
// restored. The runtime then tries the next older checkpoint by itself.
type CheckpointRejected struct {
	Path   string `json:"path"` // as in Start
	Reason string `json:"reason"`
}

// Resumed reports the checkpoint in the Start message from which the job resumes.
type Resumed struct {
	Path string `json:"path"` // as in Start
	Step int    `json:"step"`
	// Note says what is special about it, such as that the software differs.
	Note string `json:"note,omitempty"`
}

// Preview names a complete, closed image of the job's current state.
type Preview struct {
	Path string `json:"path"`
	Step int    `json:"step"`
}

// Metrics reports measurements of the runtime. A value that is not known is 0.
type Metrics struct {
	GPUMemoryBytes int64   `json:"gpuMemoryBytes,omitempty"`
	StepSeconds    float64 `json:"stepSeconds,omitempty"`
}

// Result ends a job that succeeded. All files are complete and closed.
type Result struct {
	Video       string `json:"video,omitempty"`
	Thumbnail   string `json:"thumbnail,omitempty"`
	Spritesheet string `json:"spritesheet,omitempty"`
	// Preview is what a draft ends with: an image, or a short MP4 or WebM clip.
	Preview string          `json:"preview,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
}

// Cancelled ends a job that was cancelled. No part of the job is still running.
type Cancelled struct{}

// Failure ends a job or a load that failed. It is also the error with which a
// [Process] ends.
type Failure struct {
	Class   FailureClass `json:"class"`
	Message string       `json:"message"` // says what, why, and what to do
	// Detail helps to find the cause, such as a stack trace.
	Detail            string `json:"detail,omitempty"`
	RetryAfterSeconds int    `json:"retryAfterSeconds,omitempty"`
	// Lacks is what this worker lacks for the model, such as a file of weights, or "". The worker
	// gets no more jobs of the model until that changes.
	Lacks string `json:"lacks,omitempty"`
	// Unready means that this worker can do no job at the moment, whatever the model.
	Unready bool `json:"unready,omitempty"`
}

// Failf returns a Failure with a formatted message.
func Failf(class FailureClass, format string, args ...any) *Failure {
	return &Failure{Class: class, Message: fmt.Sprintf(format, args...)}
}

// Error returns the failure's message, without its class.
func (f *Failure) Error() string { return f.Message }

// Log is a line for the job's log. Level is debug, info, warn or error.
type Log struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}

func (*Ready) name() string              { return "ready" }
func (*Loaded) name() string             { return "loaded" }
func (*Progress) name() string           { return "progress" }
func (*Checkpoint) name() string         { return "checkpoint" }
func (*CheckpointRejected) name() string { return "checkpointRejected" }
func (*Resumed) name() string            { return "resumed" }
func (*Preview) name() string            { return "preview" }
func (*Metrics) name() string            { return "metrics" }
func (*Result) name() string             { return "result" }
func (*Cancelled) name() string          { return "cancelled" }
func (*Failure) name() string            { return "error" }
func (*Log) name() string                { return "log" }

// parseMessage parses a line from a runtime: an object with one key, the
// message's name.
func parseMessage(line []byte) (Message, error) {
	var envelope map[string]json.RawMessage
	if err := json.Unmarshal(line, &envelope); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if len(envelope) != 1 {
		return nil, fmt.Errorf("it has %d keys; a message has one, its name", len(envelope))
	}
	for name, body := range envelope {
		message := newMessage(name)
		if message == nil {
			return nil, fmt.Errorf("there is no message %q", name)
		}
		if !bytes.HasPrefix(body, []byte("{")) {
			return nil, fmt.Errorf("the value of %q is not an object", name)
		}
		if err := json.Unmarshal(body, message); err != nil {
			return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
		}
		if err := message.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return message, nil
	}
	panic("unreachable")
}

func newMessage(name string) Message {
	for _, message := range []Message{
		&Ready{}, &Loaded{}, &Progress{}, &Checkpoint{}, &CheckpointRejected{},
		&Resumed{}, &Preview{}, &Metrics{}, &Handle{}, &Result{}, &Cancelled{}, &Failure{}, &Log{},
	} {
		if message.name() == name {
			return message
		}
	}
	return nil
}
