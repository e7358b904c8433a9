package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ChildConfig says which program to run and how to end it.
type ChildConfig struct {
	Name string   // its name in messages
	Path string   // the program
	Args []string // its arguments, without the program's name
	Env  []string // its whole environment; nil means that of this process
	Dir  string   // its working directory; empty means that of this process

	Input string // its standard input, such as secrets
	Log   string // the file that its output is appended to; the file is trimmed when it grows too long

	Output *os.File   // receives its output if there is no Log; nil discards it
	Files  []*os.File // open files that it inherits, from descriptor 3 on

	Stop  syscall.Signal // asks it to end; 0 is SIGTERM
	Grace time.Duration  // how long it may take to end; 0 is 10 s

	account *account // the user it runs as; nil is this process's
}

// Child is a running program that cannot outlive this process. It leads a
// process group of its own, so that Ctrl-C in a terminal reaches only this process,
// which decides the order in which its children end.
//
// If this process is killed, the kernel (on Linux) and a guard process (on
// every Unix) ask the child to end, and the guard then kills what is left of its
// group.
type Child struct {
	config   ChildConfig
	cmd      *exec.Cmd
	logStart int64
	stopping atomic.Bool
	done     chan struct{}
	err      error
}

// StartChild runs the program. It returns an error if the program or its guard
// cannot be started, or its log cannot be written.
func StartChild(config ChildConfig) (*Child, error) {
	if config.Stop == 0 {
		config.Stop = syscall.SIGTERM
	}
	if config.Grace == 0 {
		config.Grace = 10 * time.Second
	}
	child := &Child{config: config, done: make(chan struct{})}

	started := make(chan error, 1)
	go child.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", config.Name, err)
	}
	return child, nil
}

// run starts the program and waits until it has ended. It locks its OS thread because
// Linux sends the parent death signal when the thread that started the child ends, not
// when the process does.
func (c *Child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	guard, err := c.start()
	started <- err
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var trimming sync.WaitGroup
	if c.config.Log != "" {
		trimming.Go(func() { keepTrimmed(ctx, c.config.Log) })
	}
	err = c.cmd.Wait()
	cancel()
	trimming.Wait()
	signalGroup(c.cmd.Process.Pid, syscall.SIGKILL)
	guard.dismiss()
	if !c.stopping.Load() {
		c.err = c.unexpected(err)
	}
	close(c.done)
}

func (c *Child) start() (*guard, error) {
	c.cmd = exec.Command(c.config.Path, c.config.Args...)
	c.cmd.Env, c.cmd.Dir = c.config.Env, c.config.Dir
	if c.config.Input != "" {
		c.cmd.Stdin = strings.NewReader(c.config.Input)
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.cmd.SysProcAttr, c.config.Stop)
	c.config.account.apply(c.cmd.SysProcAttr)

	c.cmd.ExtraFiles = c.config.Files
	if c.config.Output != nil {
		c.cmd.Stdout, c.cmd.Stderr = c.config.Output, c.config.Output
	}
	if c.config.Log != "" {
		if err := trimLog(c.config.Log); err != nil {
			return nil, err
		}
		log, err := os.OpenFile(c.config.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		if info, err := log.Stat(); err == nil {
			c.logStart = info.Size()
		}
		c.cmd.Stdout, c.cmd.Stderr = log, log
	}

	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	guard, err := startGuard(c.cmd.Process.Pid, c.config.Stop, c.config.Grace)
	if err != nil {
		signalGroup(c.cmd.Process.Pid, syscall.SIGKILL)
		return nil, errors.Join(err, c.cmd.Wait())
	}
	return guard, nil
}

// Pid returns the process id of the program, which is also the id of its process group.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done returns a channel that is closed when the program has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err returns, once Done is closed, why the program ended. It is nil if Stop or Kill
// ended it.
func (c *Child) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// ExitCode returns, once Done is closed, the program's exit status, or -1 if a signal
// killed it.
func (c *Child) ExitCode() int { return c.cmd.ProcessState.ExitCode() }

// Stop asks the program to end and waits for it. When its grace period or ctx ends, Stop
// kills its process group and returns an error. Stopping an ended program does nothing.
func (c *Child) Stop(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	c.stopping.Store(true)
	// The signal can only fail because the program has ended by itself.
	_ = c.cmd.Process.Signal(c.config.Stop)

	grace := time.NewTimer(c.config.Grace)
	defer grace.Stop()
	select {
	case <-c.done:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	c.Kill()
	return fmt.Errorf("%s did not end when asked to and was killed", c.config.Name)
}

// Kill ends the program and its process group at once, and waits for it.
func (c *Child) Kill() {
	c.stopping.Store(true)
	select {
	case <-c.done:
	default:
		signalGroup(c.Pid(), syscall.SIGKILL)
		<-c.done
	}
}

func (c *Child) unexpected(err error) error {
	how := "it exited with status 0"
	if err != nil {
		how = err.Error()
	}
	if said := c.lastWords(); said != "" {
		return fmt.Errorf("%s ended unexpectedly (%s). The end of its log %s says:\n%s", c.config.Name, how, c.config.Log, said)
	}
	return fmt.Errorf("%s ended unexpectedly (%s)", c.config.Name, how)
}

// LastLine returns the last line that the program has logged so far, without blanks around it.
func (c *Child) LastLine() string {
	said := c.lastWords()
	return strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:])
}

// lastWords returns the last lines that this run of the program has logged.
func (c *Child) lastWords() string {
	const lines, size = 8, 4 << 10
	log, err := os.Open(c.config.Log)
	if err != nil {
		return ""
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	from := info.Size() - size
	if c.logStart <= info.Size() { // else it was trimmed since
		from = max(from, c.logStart)
	}
	from = max(from, 0)
	text := make([]byte, info.Size()-from)
	n, _ := log.ReadAt(text, from) // a short read shows what there is
	all := strings.Split(strings.TrimSpace(string(text[:n])), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// signalGroup signals a process group. A group that is gone needs no signal.
func signalGroup(pid int, signal syscall.Signal) {
	_ = syscall.Kill(-pid, signal)
}

// answers polls the child until it answers. It returns the error of the child if the child
// ends, and the last error of the poll if ctx ends.
func answers(ctx context.Context, child *Child, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-child.Done():
			return child.Err()
		default:
		}
		if pause(ctx) != nil {
			return fmt.Errorf("%s does not answer: %w", child.config.Name, err)
		}
	}
}

// pause waits between two polls. It returns the error of ctx if ctx ends first.
func pause(ctx context.Context) error {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
