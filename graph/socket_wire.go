package graph

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// wire is what a socket writes to, a whole frame at once. Messages are written here, and
// control frames by the library, which would take longer for a message than everything
// else that an event costs but the kernel.
type wire struct {
	net.Conn
	patience time.Duration // how long a write may take

	mu     sync.Mutex
	until  time.Time // its deadline
	closed bool      // it said that it closes
}

// The first byte of a frame that is its message's only one, see RFC 6455, 5.2.
const (
	textFrame  = 0x80 | 0x1
	closeFrame = 0x80 | 0x8
)

// Write implements net.Conn for whole frames. It fails with net.ErrClosed behind one that
// closes, and with a timeout after patience, or three quarters of it: the deadline is not
// set anew for each frame.
func (w *wire) Write(frame []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, net.ErrClosed
	}
	w.closed = frame[0] == closeFrame
	if now := time.Now(); w.until.Sub(now) < w.patience*3/4 {
		w.until = now.Add(w.patience)
		if err := w.SetWriteDeadline(w.until); err != nil {
			return 0, err
		}
	}
	return w.Conn.Write(frame)
}

// frames are buffers for frames.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// maxFrameKept bounds a buffer that is kept.
const maxFrameKept = 16 << 10

// writeText writes a message of these parts.
func (w *wire) writeText(parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	buffer := frames.Get().(*[]byte)
	frame := append((*buffer)[:0], textFrame)
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
