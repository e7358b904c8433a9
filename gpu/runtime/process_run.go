package runtime

import (
	"errors"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"sync"
	"syscall"
	"time"
)

// run starts the program and returns when it has ended. It locks its OS thread
// because Linux sends the parent death signal when the thread that started the
// child ends, not when the process does.
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
	p.killGroup() // the processes that the runtime started and left behind
	p.exited = true
	p.mu.Unlock()

	// A process that left the group can hold the pipes open forever.
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

// start starts the program with its own pipes. The pipes of os/exec are closed
// when the program ends, even if its last output was not read.
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
