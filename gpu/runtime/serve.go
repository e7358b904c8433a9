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
	progressEvery = 50 * time.Millisecond // more than an eye can follow
	cancelLimit   = 10 * time.Second      // for a job to end once it must
)

// Handler is a model as [Serve] drives it: one call at a time. An error that is
// not a *Failure is reported as MODEL_CRASH.
type Handler interface {
	// Load brings a model into memory, where it stays.
	Load(ctx context.Context, model string) error
	// Render does a job. When ctx ends it returns soon, whatever the error.
	Render(ctx context.Context, job *Job) (Result, error)
}

// Job is one job for a Handler, and its way to say how that goes. Errors of the
// output are not the job's concern: Serve ends by them.
type Job struct {
	Start
	// CheckpointAsked receives when the agent wants a checkpoint: the answer is
	// one call of Checkpoint.
	CheckpointAsked <-chan struct{}

	server   *server
	asked    chan struct{}
	cancel   context.CancelFunc
	reported Progress
	when     time.Time
	mu       sync.Mutex
}

// Progress reports progress. At most 20 a second are sent on, and each change of
// phase.
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

// Checkpoint reports a checkpoint, asked or unasked.
func (j *Job) Checkpoint(c Checkpoint) { j.server.send(&c) }

// Reject reports a given checkpoint that does not restore.
func (j *Job) Reject(c Restorable, reason error) {
	j.server.send(&CheckpointRejected{Path: c.Path, Reason: clip(reason.Error())})
}

// Resumed reports the given checkpoint from which the job goes on.
func (j *Job) Resumed(c Restorable, step int) { j.server.send(&Resumed{Path: c.Path, Step: step}) }

// Log adds a line to the job's log.
func (j *Job) Log(level, message string) { j.server.send(&Log{Level: level, Message: message}) }

// server is one Serve.
type server struct {
	handler Handler
	mu      sync.Mutex // held while a message is written
	out     io.Writer
	err     error         // of the output
	job     *Job          // nil between jobs
	over    chan struct{} // closed when the load or job that runs is over
}

// Serve speaks the protocol for a runtime until it is told to shut down or in
// ends, which cancels the job that runs. It returns an error if the agent breaks
// the protocol, the pipes fail, or the job does not end when it must.
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
			if err := s.handler.Load(ctx, c.Load.Model); err != nil {
				return asFailure(err)
			}
			return &Loaded{Model: c.Load.Model}
		})
	case c.Start != nil:
		jobCtx, cancel := context.WithCancel(ctx)
		asked := make(chan struct{}, 1)
		job := &Job{Start: *c.Start, CheckpointAsked: asked, server: s, asked: asked, cancel: cancel}
		return s.begin(job, func() Message {
			defer cancel()
			return end(jobCtx, job, s.handler)
		})
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.job == nil: // it ended while the command was on its way
	case c.Checkpoint != nil:
		select {
		case s.job.asked <- struct{}{}:
		default:
		}
	case c.Cancel != nil:
		s.job.cancel()
	}
	return nil
}

// begin runs work, which returns the message that ends it.
func (s *server) begin(job *Job, work func() Message) error {
	select {
	case <-s.over:
	default:
		return errors.New("a command to begin while something runs")
	}
	s.mu.Lock()
	s.job = job
	s.mu.Unlock()

	over := make(chan struct{})
	s.over = over
	go func() {
		message := work()
		// The agent may answer the message with the next job before this
		// goroutine goes on: nothing may run any more by then.
		s.mu.Lock()
		defer s.mu.Unlock()
		s.job = nil
		close(over)
		s.write(message)
	}()
	return nil
}

// end does the job and says how it ended.
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
	if cut := len(failure.Detail) - maxDetail; cut > 0 {
		clipped.Detail = strings.ToValidUTF8(failure.Detail[cut:], "")
	}
	return &clipped
}

// clip cuts a sentence to the length that the protocol allows.
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
