package transport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// errTooManyFrames means that a client sends frames faster than it is allowed to.
var errTooManyFrames = errors.New("too many frames")

const (
	// A client may send maxFrames at once and framesPerSecond on average. Messages,
	// fragments of messages and control frames count alike.
	maxFrames       = 200
	framesPerSecond = 50

	// socketBuffer is the size of each of a socket's two buffers. Those of net/http have
	// 4 KiB, which is too much for thousands of sockets that are silent most of the time.
	socketBuffer = 512

	// What a client sends after too many frames is discarded within these bounds, so that
	// the client can read why its socket is closed.
	discardTime = time.Second
	discardMost = 1 << 20
)

// framedConn is the connection below a socket. It counts the frames that it reads,
// because the WebSocket library reports whole messages only: pings, pongs and empty
// fragments would be free.
type framedConn struct {
	net.Conn
	frames *frameBudget
}

// Read implements net.Conn. It fails with errTooManyFrames once the client has sent too
// many frames.
func (c *framedConn) Read(p []byte) (int, error) {
	if c.frames.isSpent() {
		_ = c.SetReadDeadline(time.Now().Add(discardTime))
		_, _ = io.CopyN(io.Discard, c.Conn, discardMost)
		return 0, errTooManyFrames
	}
	n, err := c.Conn.Read(p)
	c.frames.spend(p[:n], time.Now())
	if c.frames.isSpent() {
		return 0, errTooManyFrames
	}
	return n, err
}

// framedHijacker makes the WebSocket library read through conn.
type framedHijacker struct {
	http.ResponseWriter
	conn *framedConn
}

// Hijack implements http.Hijacker.
func (w framedHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // came with the request
	w.conn.Conn = conn
	w.conn.frames.spend(early, time.Now())
	reader := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), max(socketBuffer, len(early)))
	_, err = reader.Peek(len(early)) // the library takes what is buffered, and then reads from w.conn
	return w.conn, bufio.NewReadWriter(reader, bufio.NewWriterSize(conn, socketBuffer)), err
}

// frameBudget counts the frames in a stream of bytes.
type frameBudget struct {
	left    float64 // frames that may still come at once
	counted time.Time

	head []byte // the header of a frame, as far as it has come
	rest uint64 // bytes of the frame's payload that are still to come

	// unmasked means that a frame was not masked. The library then fails without a close code.
	unmasked bool
}

func newFrameBudget() *frameBudget {
	return &frameBudget{left: maxFrames, head: make([]byte, 0, maxFrameHead)}
}

// isSpent reports whether too many frames have come.
func (b *frameBudget) isSpent() bool { return b.left < 0 }

// spend counts the frames that begin in p, the next bytes of the stream.
func (b *frameBudget) spend(p []byte, now time.Time) {
	if !b.counted.IsZero() {
		b.left = min(maxFrames, b.left+framesPerSecond*now.Sub(b.counted).Seconds())
	}
	b.counted = now
	for len(p) > 0 && !b.isSpent() {
		if b.rest > 0 {
			skipped := min(b.rest, uint64(len(p)))
			b.rest -= skipped
			p = p[skipped:]
			continue
		}
		b.head = append(b.head, p[0])
		p = p[1:]
		if size, known := payloadSize(b.head); known {
			b.unmasked = b.unmasked || b.head[1]&maskBit == 0
			b.head, b.rest = b.head[:0], size
			b.left--
		}
	}
}

// maskBit, in the second byte of a frame, says that the payload is masked.
const maskBit = 0x80

// maxFrameHead is the largest size of a frame's header.
const maxFrameHead = 14

// payloadSize returns the size of a frame's payload once the header is complete, see
// RFC 6455, section 5.2.
func payloadSize(head []byte) (size uint64, known bool) {
	if len(head) < 2 {
		return 0, false
	}
	extended, mask := 0, 0
	size = uint64(head[1] & 0x7f)
	switch size {
	case 126:
		extended = 2
	case 127:
		extended = 8
	}
	if head[1]&maskBit != 0 {
		mask = 4
	}
	if len(head) < 2+extended+mask {
		return 0, false
	}
	switch extended {
	case 2:
		size = uint64(binary.BigEndian.Uint16(head[2:]))
	case 8:
		size = binary.BigEndian.Uint64(head[2:])
	}
	return size, true
}
