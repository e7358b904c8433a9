package runtime

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// What a runtime may write to stdout within one second. A working one writes a
// few lines.
const (
	maxLinesPerSecond = 5000
	maxBytesPerSecond = 8 << 20
)

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
			return errors.New("it said cancelled, but no cancel was requested")
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
