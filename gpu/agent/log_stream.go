package agent

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/agent/redact"
)

const (
	// logEvery is how often new lines of the runtime's output are sent.
	logEvery = 2 * time.Second
	// maxLogPart is the most that one call takes.
	maxLogPart = 16 << 10
	// maxLogLine is the longest line that is waited for. A longer one is not sent, since half a
	// secret cannot be recognised.
	maxLogLine = 8 << 10
)

// logStream sends the runtime's output while the attempt runs, for people who follow it. What it
// cannot send in time is left out: the whole log is uploaded when the attempt ends.
type logStream struct {
	*attemptLease
	secrets *redact.Redactor

	sent int64 // how many bytes were sent

	mu      sync.Mutex
	process host.Process // nil until the job has started
	at      int64        // how much of its output was read; negative at the beginning
	skip    bool         // the rest of a line that is too long
}

// follow begins with the output of a process that has started the job.
func (s *logStream) follow(p host.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.at, s.skip = p, -1, false
}

// run sends new lines until ctx ends, or the control plane refuses them, as one of an older
// release does. It makes no call while there is nothing new.
func (s *logStream) run(ctx context.Context) {
	ticker := time.NewTicker(logEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.send(ctx)
		if err != nil && ctx.Err() == nil && !theirFault(err) && client.ErrorCode(err) != client.CodeRateLimited {
			s.log.Debug("the output is not sent while the job runs", "error", err)
			return
		}
	}
}

// send sends the lines since the last call. If it fails, the next call sends them again. Only run
// calls it.
func (s *logStream) send(ctx context.Context) error {
	s.mu.Lock()
	process, at, skip := s.process, s.at, s.skip
	s.mu.Unlock()
	if process == nil {
		return nil
	}
	raw, end := process.TailSince(at)
	lines, rest := wholeLines(raw)
	if skip && len(lines) > 0 { // they begin with the rest of a line whose beginning was left out
		_, lines, _ = bytes.Cut(lines, []byte("\n"))
		skip = false
	}
	at = end - int64(len(rest))
	if len(rest) > maxLogLine {
		at, skip = end, true
	}
	part := s.part(lines)
	if part != "" {
		err := s.once(ctx, func(ctx context.Context) (*client.HeartbeatPayload, error) {
			ctx, cancel := context.WithTimeout(ctx, beatTimeout)
			defer cancel()
			return s.api.AppendLog(ctx, s.fence, s.sent, part)
		})
		if err != nil {
			return err
		}
		s.sent += int64(len(part))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == process {
		s.at, s.skip = at, skip
	}
	return nil
}

// part returns the newest of the lines that fit into one call, without secrets.
func (s *logStream) part(lines []byte) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(lines), "\uFFFD"), "\x00", "")
	text = s.secrets.Clean(text)
	if len(text) <= maxLogPart {
		return text
	}
	const room = 64 // for the line about what is left out
	kept := text[len(text)-maxLogPart+room:]
	if _, whole, ok := strings.Cut(kept, "\n"); ok {
		kept = whole
	}
	return fmt.Sprintf("[%d bytes were left out]\n%s", len(text)-len(kept), strings.ToValidUTF8(kept, ""))
}

// wholeLines splits text after its last line. Progress bars end their lines with a carriage
// return.
func wholeLines(text []byte) (lines, rest []byte) {
	end := max(bytes.LastIndexByte(text, '\n'), bytes.LastIndexByte(text, '\r')) + 1
	return text[:end], text[end:]
}
