package quality

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

type programs struct{ ffprobe, ffmpeg string }

func findPrograms() (p programs, err error) {
	if p.ffprobe, err = exec.LookPath("ffprobe"); err != nil {
		return p, fmt.Errorf("%w (%v)", ErrMissing, err)
	}
	if p.ffmpeg, err = exec.LookPath("ffmpeg"); err != nil {
		return p, fmt.Errorf("%w (%v)", ErrMissing, err)
	}
	return p, nil
}

// input returns the options that open the file at path and nothing else: playlists,
// for example, could name other files.
func input(path string) []string {
	return []string{"-protocol_whitelist", "file", "-format_whitelist", "mov,matroska", "-i", "file:" + path}
}

// complaints keeps the beginning of a process's standard error and counts its lines, except those about
// the host.
type complaints struct {
	text  bytes.Buffer
	lines int
	rest  []byte // of a line that has not ended
}

// ofHost matches what libraries of ffmpeg print about the host, whatever the file is: libgcrypt where memory
// may not be locked, as in many containers, and drivers that are not there.
var ofHost = regexp.MustCompile(
	`^(Warning: using insecure memory!|libva (info|error): |ALSA lib |MESA|Xlib: |amdgpu: |Failed to open VDPAU backend )`)

const maxComplaints = 4 << 10

func (c *complaints) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for {
		end := bytes.IndexByte(c.rest, '\n')
		if end < 0 && len(c.rest) < maxComplaints {
			return len(p), nil
		}
		if end < 0 {
			end = len(c.rest) - 1 // a line without an end
		}
		c.add(c.rest[:end+1])
		c.rest = c.rest[end+1:]
	}
}

func (c *complaints) add(line []byte) {
	if !ofHost.Match(line) {
		c.lines++
		c.text.Write(line[:min(len(line), maxComplaints-c.text.Len())])
	}
}

// end adds a last line that has no end. It is not counted.
func (c *complaints) end() {
	lines := c.lines
	c.add(c.rest)
	c.lines = lines
}

// first returns the first line, without ffmpeg's mark of the part that printed it.
func (c *complaints) first() string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.text.String()), "\n")
	if mark, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(mark, "[") {
		line = rest
	}
	return strings.ToValidUTF8(line, "")
}

// shortage is what a program says that could not get memory or another thread.
var shortage = regexp.MustCompile(`(?i)cannot allocate memory|failed to map segment|resource temporarily unavailable`)

// run runs a program with a pipe for each reader: standard output for the first, file
// descriptors 3, 4 … for the others. It returns when the program has ended and all
// readers have returned. A status other than 0 is an error only if the host lacked
// memory or processes, which says nothing about the file. The program gets a
// process group of its own, which is killed as a whole when ctx ends or a reader
// fails.
func run(ctx context.Context, program string, args []string, readers ...func(io.Reader) error) (*complaints, bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	said := &complaints{}
	cmd.Stderr = said

	ours, theirs, err := pipes(len(readers))
	defer closeAll(ours)
	if err == nil {
		cmd.Stdout, cmd.ExtraFiles = theirs[0], theirs[1:]
		err = cmd.Start()
	}
	closeAll(theirs)
	if err != nil {
		return nil, false, cmp.Or(context.Cause(ctx), err)
	}
	var reading sync.WaitGroup
	for i, read := range readers {
		reading.Go(func() {
			if err := read(ours[i]); err != nil {
				cancel(err)
			}
		})
	}
	reading.Wait()
	err = cmd.Wait()
	said.end()
	if ctx.Err() != nil {
		return said, false, context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if exit.ExitCode() < 0 {
			return said, false, fmt.Errorf("%s ended by %s", program, exit)
		}
		if shortage.Match(said.text.Bytes()) {
			return said, false, fmt.Errorf("this host has too little memory or too many processes for %s: %s", filepath.Base(program), said.first())
		}
		return said, false, nil
	}
	return said, err == nil, err
}

func pipes(n int) (ours, theirs []*os.File, err error) {
	for range n {
		r, w, err := os.Pipe()
		if err != nil {
			return ours, theirs, err
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	return ours, theirs, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}
