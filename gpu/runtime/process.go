package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	commandLimit = 10 * time.Second // how long the runtime has to read a command
	drainLimit   = time.Second      // how long to read the output after the process ended
)

// Config says how to start a runtime.
type Config struct {
	Command []string      // the program and its arguments
	Dir     string        // its working directory; empty means the agent's
	Env     []string      // its whole environment; nil means the agent's
	Ready   time.Duration // how long to wait for its Ready message; 0 means 60 s
}

// Process is a running runtime. It does one thing at a time: a load or a job.
//
// Its owner reads Messages until the channel is closed, or calls Kill or
// Shutdown. All methods are safe to call at any time from any goroutine.
type Process struct {
	cmd     *exec.Cmd
	stdin   *os.File
	tail    tail
	mailbox *mailbox
	ready   chan *Ready
	done    chan struct{}

	abandon   sync.Once
	abandoned chan struct{}

	writing sync.Mutex // held while a command is written

	mu        sync.Mutex
	state     state
	loading   string // the model
	job       Start
	requested requests // what its owner asked it to do
	exited    bool     // reaped: the process id is free and can be reused
	failure   *Failure // the first thing that it did wrong
	announce  Ready
}

type state string

const (
	starting state = "starting"
	idle     state = "idle"
	loading  state = "loading a model"
	running  state = "doing a job"
)

// requests is what the owner of a process asked for.
type requests struct{ cancel, end bool }

// Launch starts a runtime and waits until it is ready. ctx bounds only the
// launch. If the runtime does not become ready, Launch kills it and returns a
// *Failure of class MODEL_CRASH that says why, or ctx's error.
func Launch(ctx context.Context, config Config) (*Process, error) {
	if config.Ready == 0 {
		config.Ready = time.Minute
	}
	p := &Process{
		mailbox:   newMailbox(),
		ready:     make(chan *Ready, 1),
		done:      make(chan struct{}),
		abandoned: make(chan struct{}),
		state:     starting,
	}
	started := make(chan error, 1)
	go p.run(config, started)
	if err := <-started; err != nil {
		return nil, Failf(ModelCrash, "The runtime %q could not be started: %v.", config.Command, err)
	}

	limit := time.NewTimer(config.Ready)
	defer limit.Stop()
	select {
	case <-p.ready:
		return p, nil
	case <-p.done:
	case <-limit.C:
		p.fail(Failf(ModelCrash, "The runtime did not say ready within %s.%s", config.Ready, p.quoteTail()))
	case <-ctx.Done():
		p.Kill()
		<-p.done
		return nil, fmt.Errorf("launch runtime: %w", context.Cause(ctx))
	}
	p.Kill()
	return nil, p.Wait()
}

// Announced returns the runtime's Ready message.
func (p *Process) Announced() Ready { return p.announce }

// Messages returns the runtime's messages in order, except Log messages, which
// go to the Tail. Of consecutive Progress, Preview and Metrics messages, a slow reader
// gets only the newest of each. The channel is closed after Kill, or when the runtime has ended and
// everything was read.
func (p *Process) Messages() <-chan Message { return p.mailbox.messages }

// Done returns a channel that is closed when the runtime has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the runtime has ended. The error is nil if Shutdown or Kill
// ended it. Otherwise it is a *Failure of class MODEL_CRASH that says how the
// runtime ended or how it broke the protocol.
func (p *Process) Wait() error {
	<-p.done
	if p.failure == nil {
		return nil
	}
	return p.failure
}

// Tail returns the last 64 KiB of the runtime's standard error and Log messages
// since the last Load or Start. A job's log thus holds nothing of the previous
// job, which may belong to another customer.
func (p *Process) Tail() string { return p.tail.String() }

// TailSince returns what the Tail got after a position and still has, without the change of
// invalid bytes, and the position of its end. A negative position is that of the last Load or
// Start. A position of an earlier job gives its output: keep none from one job to the next.
func (p *Process) TailSince(position int64) ([]byte, int64) { return p.tail.Since(position) }

// Load asks the runtime to load a model into memory. The runtime answers with
// Loaded or Failure.
func (p *Process) Load(model Model) error {
	if p.announce.Protocol < 2 {
		model = Model{Name: model.Name}
	}
	return p.order(command{Load: &model}, func() error {
		if p.state != idle {
			return fmt.Errorf("load %s: the runtime is %s", model.Name, p.state)
		}
		p.state, p.loading = loading, model.Name
		p.tail.forget()
		return nil
	})
}

// Start gives the runtime a job. The job ends with Result, Failure or Cancelled.
func (p *Process) Start(job Start) error {
	if p.announce.Protocol < 2 {
		if job.DraftSteps > 0 {
			return Failf(InvalidInput, "The runtime %s speaks version 1 of the protocol, so it cannot make a draft.", p.announce.Runtime)
		}
		job.Version, job.Settings, job.Determinism, job.Handle, job.Traceparent = 0, nil, "", "", ""
	}
	return p.order(command{Start: &job}, func() error {
		if p.state != idle {
			return fmt.Errorf("start %s: the runtime is %s", job.Job, p.state)
		}
		if !filepath.IsAbs(job.Workdir) {
			return fmt.Errorf("start %s: the workdir %q is not absolute", job.Job, job.Workdir)
		}
		p.state, p.job, p.requested.cancel = running, job, false
		p.tail.forget()
		return nil
	})
}

// Checkpoint asks for a checkpoint of the job. The answer is a Checkpoint, or the
// job's end if that comes first. Asking again before the answer has no effect.
func (p *Process) Checkpoint() error {
	return p.order(command{Checkpoint: &struct{}{}}, func() error { return nil })
}

// Cancel asks the runtime to cancel the job. The answer is Cancelled, or another
// end of the job if that comes first. If keep is set, work that the job's handle names goes on.
func (p *Process) Cancel(keep bool) error {
	return p.order(command{Cancel: &Cancel{Keep: keep}}, func() error {
		p.requested.cancel = true
		return nil
	})
}

// Stored answers a Handle that asks for it: the control plane has the handle.
func (p *Process) Stored() error {
	return p.order(command{Stored: &struct{}{}}, func() error { return nil })
}

// Shutdown asks the runtime to end, waits for it, and kills it when ctx ends. It
// returns what Wait returns. Unread messages are dropped.
func (p *Process) Shutdown(ctx context.Context) error {
	err := p.order(command{Shutdown: &struct{}{}}, func() error {
		p.requested = requests{cancel: true, end: true}
		return nil
	})
	if err == nil {
		p.stdin.Close()
		select {
		case <-p.done:
		case <-ctx.Done():
		}
	}
	p.Kill()
	return p.Wait()
}

// Kill kills the runtime and every process of its group. It does not wait for
// their end, since a process that hangs in a device driver can take long to die.
func (p *Process) Kill() {
	p.abandon.Do(func() { close(p.abandoned) })
	p.mu.Lock()
	defer p.mu.Unlock()

	p.requested.end = true
	p.killGroup()
}

func (p *Process) killGroup() {
	if !p.exited {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// fail kills the runtime. It records the failure unless the runtime is already
// ending or has failed before.
func (p *Process) fail(failure *Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.failure == nil && !p.exited && !p.requested.end {
		p.failure = failure
	}
	p.killGroup()
}

// order changes the state with move and then writes the command, one order at a
// time.
func (p *Process) order(c command, move func() error) error {
	p.writing.Lock()
	defer p.writing.Unlock()

	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write a command: %w", err)
	}
	p.mu.Lock()
	err = move()
	p.mu.Unlock()
	if err != nil {
		return err
	}

	_ = p.stdin.SetWriteDeadline(time.Now().Add(commandLimit))
	_, err = p.stdin.Write(append(line, '\n'))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		failure := Failf(ModelCrash, "The runtime did not read a command for %s.%s", commandLimit, p.quoteTail())
		p.fail(failure)
		return failure
	}
	if err != nil {
		return Failf(ModelCrash, "The runtime takes no more commands: %v.", err)
	}
	return nil
}

// conclude records why the runtime ended by itself, unless a failure is already
// recorded or its owner ended it.
func (p *Process) conclude(exit error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.failure != nil || p.requested.end {
		return
	}
	how := "exit status 0"
	if exit != nil {
		how = exit.Error()
	}
	p.failure = Failf(ModelCrash, "The runtime exited (%s) while it was %s.%s", how, p.state, p.quoteTail())
}

func (p *Process) quoteTail() string {
	words := p.tail.lastWords()
	if words == "" {
		return ""
	}
	return " Output: " + words
}
