package runtime

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	progressEvery = 50 * time.Millisecond // 20 a second: enough for a smooth display
	cancelLimit   = 10 * time.Second      // how long a job has to end after its context ends
)

// Handler is a model that [Serve] calls, one call at a time. An error that is not
// a *Failure is reported as MODEL_CRASH.
type Handler interface {
	// Load loads a model into memory, where it stays.
	Load(ctx context.Context, model Model) error
	// Render runs a job. It must return soon after ctx ends, with any error.
	Render(ctx context.Context, job *Job) (Result, error)
}

// Job is a job for a Handler, which reports on it through its methods. If the output
// fails, Serve returns the error.
type Job struct {
	Start
	// CheckpointAsked receives a value when the agent asks for a checkpoint. The
	// handler answers with one call of Checkpoint.
	CheckpointAsked <-chan struct{}

	server   *server
	asked    chan struct{}
	cancel   context.CancelCauseFunc
	reported Progress
	when     time.Time
	mu       sync.Mutex
}

// Progress reports progress. It sends every change of phase, and otherwise at most
// 20 reports per second.
func (j *Job) Progress(p Progress) {
	j.mu.Lock()
	defer j.mu.Unlock()

	now := time.Now()
	if p.Phase == j.reported.Phase && now.Sub(j.when) < progressEvery {
		return
	}
	j.reported, j.when = p, now
	j.server.send(&p)
}

// Checkpoint reports a checkpoint, requested or not.
func (j *Job) Checkpoint(c Checkpoint) { j.server.send(&c) }

// Reject reports that a checkpoint in Start could not be restored.
func (j *Job) Reject(c Restorable, reason error) {
	j.server.send(&CheckpointRejected{Path: c.Path, Reason: clip(reason.Error())})
}

// Resumed reports the checkpoint in Start from which the job resumes.
func (j *Job) Resumed(c Restorable, step int) { j.server.send(&Resumed{Path: c.Path, Step: step}) }

// Preview reports an image of the job's current state. The file must not change afterwards.
func (j *Job) Preview(path string, step int) { j.server.send(&Preview{Path: path, Step: step}) }

// Log adds a line to the job's log.
func (j *Job) Log(level, message string) { j.server.send(&Log{Level: level, Message: message}) }

// server is the state of one call of Serve.
type server struct {
	handler Handler
	mu      sync.Mutex // held while a message is written
	out     io.Writer
	err     error         // of the output
	job     *Job          // nil between jobs
	over    chan struct{} // closed when no load or job is running
	stored  chan struct{} // closed when the newest handle is stored; nil if none waits for that
}

// ErrCancelled is the cause of the end of a job's context if the job itself was cancelled, and not
// just moves to another worker: work outside this process must be stopped.
var ErrCancelled = errors.New("the job was cancelled")

var errMoves = errors.New("the job goes on elsewhere")

// Serve speaks the protocol for a runtime until the agent sends shutdown or in
// ends, and then cancels the running job. It returns an error if the agent breaks
// the protocol, the pipes fail, or the job does not end in time.
func Serve(ctx context.Context, in io.Reader, out io.Writer, ready Ready, handler Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	s := &server{handler: handler, out: out, over: make(chan struct{})}
	close(s.over)
	ready.Protocol = ProtocolVersion
	s.send(&ready)

	err := s.commands(ctx, in)
	cancel()
	select {
	case <-s.over:
	case <-time.After(cancelLimit):
		err = errors.Join(err, fmt.Errorf("the job did not end within %s", cancelLimit))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = errors.Join(err, s.err); err != nil {
		return fmt.Errorf("serve the agent: %w", err)
	}
	return nil
}

func (s *server) commands(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		var c command
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&c); err != nil {
			return fmt.Errorf("a command: %w", err)
		}
		if c.Shutdown != nil {
			return nil
		}
		if err := s.obey(ctx, c); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *server) obey(ctx context.Context, c command) error {
	switch {
	case c.Load != nil:
		return s.begin(nil, func() Message {
			if err := s.handler.Load(ctx, *c.Load); err != nil {
				return asFailure(err)
			}
			return &Loaded{Model: c.Load.Name}
		})
	case c.Start != nil:
		jobCtx, cancel := context.WithCancelCause(ctx)
		asked := make(chan struct{}, 1)
		job := &Job{Start: *c.Start, CheckpointAsked: asked, server: s, asked: asked, cancel: cancel}
		return s.begin(job, func() Message {
			defer cancel(nil)
			return end(jobCtx, job, s.handler)
		})
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.job == nil: // the job ended while the command was in transit
	case c.Checkpoint != nil:
		select {
		case s.job.asked <- struct{}{}:
		default:
		}
	case c.Cancel != nil && c.Cancel.Keep:
		s.job.cancel(errMoves)
	case c.Cancel != nil:
		s.job.cancel(ErrCancelled)
	case c.Stored != nil && s.stored != nil:
		close(s.stored)
		s.stored = nil
	}
	return nil
}

func (s *server) awaitStored(stored chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = stored
}

// begin runs work in a goroutine and sends the message that it returns.
func (s *server) begin(job *Job, work func() Message) error {
	select {
	case <-s.over:
	default:
		return errors.New("the agent sent load or start while a load or a job is running")
	}
	s.mu.Lock()
	s.job = job
	s.mu.Unlock()

	over := make(chan struct{})
	s.over = over
	go func() {
		message := work()
		// The agent can answer the message with the next job before this
		// goroutine continues, so clear the job before sending.
		s.mu.Lock()
		defer s.mu.Unlock()
		s.job = nil
		close(over)
		s.write(message)
	}()
	return nil
}

// end runs the job and returns the message that ends it.
func end(ctx context.Context, job *Job, handler Handler) Message {
	result, err := handler.Render(ctx, job)
	switch {
	case err == nil:
		return &result
	case ctx.Err() != nil:
		return &Cancelled{}
	default:
		return asFailure(err)
	}
}

func asFailure(err error) *Failure {
	failure, ok := errors.AsType[*Failure](err)
	if !ok {
		failure = &Failure{Class: ModelCrash, Message: err.Error()}
	}
	clipped := *failure
	clipped.Message = clip(failure.Message)
	if len(clipped.Lacks) > maxLacks {
		clipped.Lacks = strings.ToValidUTF8(clipped.Lacks[:maxLacks], "")
	}
	if cut := len(failure.Detail) - maxDetail; cut > 0 {
		clipped.Detail = strings.ToValidUTF8(failure.Detail[cut:], "")
	}
	return &clipped
}

// clip cuts a text to the length that the protocol allows.
func clip(sentence string) string {
	if len(sentence) <= maxTexts {
		return sentence
	}
	return strings.ToValidUTF8(sentence[:maxTexts-3], "") + "…"
}

func (s *server) send(message Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(message)
}

func (s *server) write(message Message) {
	line, err := json.Marshal(map[string]Message{message.name(): message})
	if err == nil {
		_, err = s.out.Write(append(line, '\n'))
	}
	if s.err == nil {
		s.err = err
	}
}
