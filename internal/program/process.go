package program

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// MaxLine is how many bytes [ReadLine] returns of a line.
	MaxLine = 64 << 10
	// drainLimit is how long the output of an ended program may stay open, in a process that
	// left the program's group.
	drainLimit = time.Second
)

// Process is a program that runs as the leader of a process group of its own.
type Process struct {
	command *exec.Cmd
	// Ended receives the program's end once, after all of its output was read: nil, or the
	// error of [exec.Cmd.Wait].
	Ended <-chan error
}

// Start starts a program. Each function reads one of its outputs to the end, in a goroutine of
// its own. When the program ends, the rest of its group is killed. On Linux the program is also
// killed when this process dies.
func Start(command *exec.Cmd, stdout, stderr func(io.Reader)) (*Process, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(command.SysProcAttr)
	command.WaitDelay = drainLimit // for an input that the program does not read
	outputs, ends, err := pipes()
	if err != nil {
		return nil, err
	}
	command.Stdout, command.Stderr = ends[0], ends[1]
	var readers sync.WaitGroup
	readers.Go(func() { stdout(outputs[0]) })
	readers.Go(func() { stderr(outputs[1]) })
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel ends the program with the thread that started it.
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		err := command.Start()
		closeAll(ends)
		started <- err
		if err == nil {
			err = command.Wait()
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what the program left behind
		}
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil
		}
		for _, output := range outputs {
			_ = output.SetReadDeadline(time.Now().Add(drainLimit))
		}
		readers.Wait()
		closeAll(outputs)
		ended <- err
	}()
	if err := <-started; err != nil {
		<-ended
		return nil, err
	}
	return &Process{command: command, Ended: ended}, nil
}

// Stop ends the program and every process of its group, first with SIGTERM and after grace
// with SIGKILL. It returns when the program has ended.
func (p *Process) Stop(grace time.Duration) {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.Ended:
		return
	case <-timer.C:
	}
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	<-p.Ended
}

// pipes returns the two ends of two pipes: to read from, and to write to.
func pipes() (read, write []*os.File, err error) {
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(read, write...))
			return nil, nil, err
		}
		read, write = append(read, r), append(write, w)
	}
	return read, write, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// ReadLine returns the beginning of the next line, which ends with a newline or, as progress
// bars have it, a carriage return.
func ReadLine(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		b, err := from.ReadByte()
		if err != nil || b == '\n' || b == '\r' {
			return line, err
		}
		if len(line) < MaxLine {
			line = append(line, b)
		}
	}
}
