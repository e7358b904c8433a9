package graph

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// wire is what a socket reads from, within a budget of frames, and writes to, a whole frame
// at once: its own messages, since the library would take longer for one than all else that
// an event costs but the kernel, and the library's control frames.
type wire struct {
	net.Conn
	frames   *frameBudget  // only the reader's
	patience time.Duration // how long a write may take

	mu     sync.Mutex
	until  time.Time // its deadline
	closed bool      // no frame goes out any more
}

// The first byte of a frame that is its message's only one, see RFC 6455, 5.2.
const (
	textFrame  = 0x80 | 0x1
	closeFrame = 0x80 | 0x8
)

// Read implements net.Conn. It fails with errTooManyFrames once the other side has sent more
// frames than it may, and then discards what still comes for a moment.
func (w *wire) Read(p []byte) (int, error) {
	if w.frames.isSpent() {
		_ = w.SetReadDeadline(time.Now().Add(discardTime))
		_, _ = io.CopyN(io.Discard, w.Conn, discardMost)
		return 0, errTooManyFrames
	}
	n, err := w.Conn.Read(p)
	w.frames.spend(p[:n], time.Now())
	if w.frames.isSpent() {
		return 0, errTooManyFrames
	}
	return n, err
}

// Write implements net.Conn for whole frames. It fails with a timeout after patience, or
// three quarters of it: the deadline is not set anew for each frame. Behind a frame that
// closes, or one of which not all went out, it fails with net.ErrClosed.
func (w *wire) Write(frame []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, net.ErrClosed
	}
	if now := time.Now(); w.until.Sub(now) < w.patience*3/4 {
		w.until = now.Add(w.patience)
		err = w.SetWriteDeadline(w.until)
	}
	if err == nil {
		n, err = w.Conn.Write(frame)
	}
	w.closed = err != nil || frame[0] == closeFrame
	return n, err
}

// frames are buffers for frames.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// maxHead is how many bytes come before a message.
const maxHead = 10

// maxFrameKept bounds a buffer that is kept.
const maxFrameKept = 16 << 10

// writeText writes a message of these parts.
func (w *wire) writeText(parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	buffer := frames.Get().(*[]byte)
	frame := append(slices.Grow((*buffer)[:0], maxHead+size), textFrame)
	switch {
	case size < 126:
		frame = append(frame, byte(size))
	case size < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(size))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(size))
	}
	for _, part := range parts {
		frame = append(frame, part...)
	}
	_, err := w.Write(frame)
	if cap(frame) <= maxFrameKept {
		*buffer = frame
	}
	frames.Put(buffer)
	return err
}
