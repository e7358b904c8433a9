package runtime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// What a runtime may say within one second. Honest ones say a few lines.
	maxLinesPerSecond = 5000
	maxBytesPerSecond = 8 << 20

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

// run starts the program and stays until it has ended. It keeps its thread:
// Linux sends the parent's death signal when the thread that started the child
// ends, not when the process does.
func (p *Process) run(config Config, started chan<- error) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()

	stdout, stderr, err := p.start(config)
	started <- err
	if err != nil {
		return
	}
	var readers sync.WaitGroup
	readers.Go(func() { p.read(stdout) })
	readers.Go(func() { _, _ = io.Copy(&p.tail, stderr) })
	go p.mailbox.deliver(p.abandoned)

	err = p.cmd.Wait()
	p.mu.Lock()
	p.killGroup() // what it started and left behind
	p.exited = true
	p.mu.Unlock()

	// A process that left the group may hold the pipes open for ever.
	_ = stdout.SetReadDeadline(time.Now().Add(drainLimit))
	_ = stderr.SetReadDeadline(time.Now().Add(drainLimit))
	readers.Wait()
	p.stdin.Close()
	stdout.Close()
	stderr.Close()

	p.conclude(err)
	close(p.done)
	p.mailbox.end()
}

// start starts the program with pipes of our own: those of os/exec are closed
// when the program ends, whether its last words were read or not.
func (p *Process) start(config Config) (stdout, stderr *os.File, err error) {
	if len(config.Command) == 0 {
		return nil, nil, errors.New("its command is empty")
	}
	var files []*os.File
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		files = append(files, r, w)
	}

	p.cmd = exec.Command(config.Command[0], config.Command[1:]...)
	p.cmd.Dir, p.cmd.Env = config.Dir, config.Env
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = files[0], files[3], files[5]
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr)
	if err := p.cmd.Start(); err != nil {
		return nil, nil, err
	}
	closeAll([]*os.File{files[0], files[3], files[5]})
	p.stdin = files[1]
	return files[2], files[4], nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
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
	return " Its last words: " + words
}

// read takes the runtime's lines until its output ends or one of them breaks the
// protocol.
func (p *Process) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	lines.Split(wholeLines)

	var second time.Time
	var count, size int
	for lines.Scan() {
		if now := time.Now(); now.Sub(second) > time.Second {
			second, count, size = now, 0, 0
		}
		count++
		size += len(lines.Bytes()) + 1
		if count > maxLinesPerSecond || size > maxBytesPerSecond {
			p.flooded()
			return
		}
		if !p.take(lines.Bytes()) {
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		p.fail(Failf(ModelCrash, "The runtime broke the protocol: a line is longer than %d bytes.", maxLine))
	}
}

// wholeLines splits at newlines. What follows the last of them is no line: its
// writer died in the middle of it.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

func (p *Process) flooded() {
	p.fail(Failf(ModelCrash, "The runtime floods stdout: more than %d lines or %d bytes within a second.",
		maxLinesPerSecond, maxBytesPerSecond))
}

// take reads one line. It reports false if that was the runtime's last.
func (p *Process) take(line []byte) bool {
	message, err := parseMessage(line)
	if err == nil {
		err = p.accept(message)
	}
	if err != nil {
		if len(line) > 200 {
			line = line[:200]
		}
		p.fail(Failf(ModelCrash, "The runtime broke the protocol: %v. The line begins: %q.", err, line))
		return false
	}

	switch message := message.(type) {
	case *Log:
		fmt.Fprintf(&p.tail, "%s: %s\n", message.Level, message.Message)
	case *Ready:
		p.announce = *message
		p.ready <- message
	default:
		if !p.mailbox.put(message) {
			p.flooded()
			return false
		}
	}
	return true
}

// accept moves the state by a message, or says why it may not come now.
func (p *Process) accept(message Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	switch m := message.(type) {
	case *Log:
		return nil
	case *Ready:
		if p.state == starting {
			p.state = idle
			return nil
		}
	case *Loaded:
		if p.state == loading && m.Model == p.loading {
			p.state = idle
			return nil
		}
	case *Progress:
		if p.state == running || p.state == loading {
			return nil
		}
	case *Failure:
		if p.state == running || p.state == loading {
			p.state = idle
			return nil
		}
	default:
		if p.state == running {
			return p.acceptOfJob(message)
		}
	}
	return fmt.Errorf("%s must not come while it is %s", message.name(), p.state)
}

// acceptOfJob is accept for the messages that only a job has.
func (p *Process) acceptOfJob(message Message) error {
	switch m := message.(type) {
	case *Checkpoint:
		return checkFile(p.job.Workdir, m.Path)
	case *CheckpointRejected:
		return p.checkGiven(m.Path)
	case *Resumed:
		return p.checkGiven(m.Path)
	case *Result:
		for _, path := range []string{m.Video, m.Thumbnail, m.Spritesheet} {
			if err := checkFile(p.job.Workdir, path); err != nil {
				return err
			}
		}
		p.state = idle
	case *Cancelled:
		if !p.wish.cancel {
			return errors.New("cancelled, and nobody asked for it")
		}
		p.state = idle
	}
	return nil
}

func (p *Process) checkGiven(path string) error {
	given := func(c Restorable) bool { return c.Path == path }
	if !slices.ContainsFunc(p.job.Checkpoints, given) {
		return fmt.Errorf("no checkpoint %q was given", path)
	}
	return nil
}
