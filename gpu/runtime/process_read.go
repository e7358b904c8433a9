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

// Limits for a runtime's standard output. A well-behaved runtime writes a few
// lines per second.
const (
	maxLinesPerSecond = 5000
	maxBytesPerSecond = 8 << 20
)

// read handles the runtime's lines until its output ends or a line breaks the
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

// wholeLines splits at newlines. It drops the text after the last newline, since
// its writer died in the middle of the line.
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

// take handles one line. It returns false if the line broke the protocol and the
// runtime was killed for it.
func (p *Process) take(line []byte) bool {
	message, err := parseMessage(line)
	if err == nil {
		err = p.accept(message)
	}
	if err != nil {
		p.fail(Failf(ModelCrash, "The runtime broke the protocol: %v. %s", err, beginning(line)))
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

// beginning quotes the beginning of a line, unless it may be a handle, which can be a secret.
func beginning(line []byte) string {
	if bytes.Contains(line, []byte(`"handle"`)) {
		return "The line has a handle, so it is not shown."
	}
	return fmt.Sprintf("The line begins: %q.", line[:min(len(line), 200)])
}

// accept changes the state according to a message. It returns an error if the
// message is not allowed in the current state.
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
	case *Metrics: // of a load, a job, or the time after it
		if p.state != starting {
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
	return fmt.Errorf("it sent %s while it was %s", message.name(), p.state)
}

// acceptOfJob is accept for messages that only occur during a job.
func (p *Process) acceptOfJob(message Message) error {
	switch m := message.(type) {
	case *Checkpoint:
		return checkFile(p.job.Workdir, m.Path)
	case *Preview:
		return checkFile(p.job.Workdir, m.Path)
	case *Handle:
		if p.announce.Protocol < 2 {
			return errors.New("it sent a handle, which needs version 2: say protocol 2 in ready")
		}
	case *CheckpointRejected:
		return p.checkGiven(m.Path)
	case *Resumed:
		return p.checkGiven(m.Path)
	case *Result:
		for _, path := range []string{m.Video, m.Thumbnail, m.Spritesheet, m.Preview} {
			if err := checkFile(p.job.Workdir, path); err != nil {
				return err
			}
		}
		p.state = idle
	case *Cancelled:
		if !p.requested.cancel {
			return errors.New("it said cancelled, but no cancel was requested")
		}
		p.state = idle
	}
	return nil
}

func (p *Process) checkGiven(path string) error {
	given := func(c Restorable) bool { return c.Path == path }
	if !slices.ContainsFunc(p.job.Checkpoints, given) {
		return fmt.Errorf("the job was not given a checkpoint %q", path)
	}
	return nil
}
