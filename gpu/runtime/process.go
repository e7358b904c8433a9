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
	commandLimit = 10 * time.Second // for the runtime to read a command
	drainLimit   = time.Second      // for the output of a process that has ended
)

// Config says how to start a runtime.
type Config struct {
	Command []string      // the program and its arguments
	Dir     string        // its working directory; empty is ours
	Env     []string      // its whole environment; nil is ours
	Ready   time.Duration // how long it may take to say ready; 0 is 60 s
}

// Process is a running runtime. It does one thing at a time: a load or a job.
//
// Its owner reads Messages until that is closed, or calls Kill or Shutdown. All
// methods may be called at any time and from any goroutine.
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

	mu       sync.Mutex
	state    state
	loading  string // the model
	job      Start
	wish     wish     // what its owner asked it to do
	exited   bool     // reaped: its process id is nobody's, or somebody else's
	failure  *Failure // the first thing that it did wrong
	announce Ready
}

type state string

const (
	starting state = "starting"
	idle     state = "idle"
	loading  state = "loading a model"
	running  state = "doing a job"
)

// wish is what the owner of a process asked for.
type wish struct{ cancel, end bool }

// Launch starts a runtime and waits until it is ready. ctx bounds the launch
// alone. A runtime that does not become ready is killed, and the error is a
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

// Announced is what the runtime said of itself when it was ready.
func (p *Process) Announced() Ready { return p.announce }

// Messages delivers what the runtime says, in order; Log messages go to the Tail
// instead. A slow reader gets the newest of several Progress messages in a row.
// The channel is closed when the runtime has ended and everything was read, or
// after Kill.
func (p *Process) Messages() <-chan Message { return p.mailbox.messages }

// Done is closed when the runtime has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the runtime has ended. The error is nil if Shutdown or Kill
// ended it, and else a *Failure of class MODEL_CRASH that says how it ended or
// what it said that it must not.
func (p *Process) Wait() error {
	<-p.done
	if p.failure == nil {
		return nil
	}
	return p.failure
}

// Tail is the last 64 kB of the runtime's standard error and Log messages since
// the newest Load or Start: a job's log holds nothing of the job before it, which
// may be another customer's.
func (p *Process) Tail() string { return p.tail.String() }

// Load has the runtime bring a model into memory. It answers Loaded or Failure.
func (p *Process) Load(model string) error {
	return p.order(command{Load: &load{Model: model}}, func() error {
		if p.state != idle {
			return fmt.Errorf("load %s: the runtime is %s", model, p.state)
		}
		p.state, p.loading = loading, model
		p.tail.forget()
		return nil
	})
}

// Start gives the runtime a job. It ends with Result, Failure or Cancelled.
func (p *Process) Start(job Start) error {
	return p.order(command{Start: &job}, func() error {
		if p.state != idle {
			return fmt.Errorf("start %s: the runtime is %s", job.Job, p.state)
		}
		if !filepath.IsAbs(job.Workdir) {
			return fmt.Errorf("start %s: the workdir %q is not absolute", job.Job, job.Workdir)
		}
		p.state, p.job, p.wish.cancel = running, job, false
		p.tail.forget()
		return nil
	})
}

// Checkpoint asks for a checkpoint of the job. The answer is a Checkpoint, or the
// job's end if that came first. Asking again before the answer is the same ask.
func (p *Process) Checkpoint() error {
	return p.order(command{Checkpoint: &struct{}{}}, func() error { return nil })
}

// Cancel asks the runtime to drop the job. The answer is Cancelled, or the job's
// end if that came first.
func (p *Process) Cancel() error {
	return p.order(command{Cancel: &struct{}{}}, func() error {
		p.wish.cancel = true
		return nil
	})
}

// Shutdown asks the runtime to end, waits for it, and kills it when ctx is over.
// It returns what Wait returns. Messages that nobody has read are dropped.
func (p *Process) Shutdown(ctx context.Context) error {
	err := p.order(command{Shutdown: &struct{}{}}, func() error {
		p.wish = wish{cancel: true, end: true}
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

// Kill ends the runtime and every process of its group at once. It does not wait:
// a process that hangs in a device driver may take its time to go.
func (p *Process) Kill() {
	p.abandon.Do(func() { close(p.abandoned) })
	p.mu.Lock()
	defer p.mu.Unlock()

	p.wish.end = true
	p.killGroup()
}

func (p *Process) killGroup() {
	if !p.exited {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// fail records what the runtime did wrong, unless it is ending anyway, and kills
// it.
func (p *Process) fail(failure *Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.failure == nil && !p.exited && !p.wish.end {
		p.failure = failure
	}
	p.killGroup()
}

// order moves the state and writes the command, as one step.
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

// conclude says why the runtime has ended, if nothing else has yet.
func (p *Process) conclude(exit error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.failure != nil || p.wish.end {
		return
	}
	how := "exit status 0"
	if exit != nil {
		how = exit.Error()
	}
	p.failure = Failf(ModelCrash, "The runtime ended by itself (%s) while it was %s.%s", how, p.state, p.quoteTail())
}

func (p *Process) quoteTail() string {
	words := p.tail.lastWords()
	if words == "" {
		return ""
	}
	return " Its last output: " + words
}
