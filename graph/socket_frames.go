package graph

import (
	"encoding/binary"
	"errors"
	"time"
)

// errTooManyFrames means that the other side of a socket sends faster than it may.
var errTooManyFrames = errors.New("too many frames")

const (
	// What is discarded of a side that sends too much, so that it reads why its socket is closed.
	discardTime = time.Second
	discardMost = 1 << 20
)

// frameBudget counts the frames in what a socket reads. Its library tells of whole messages
// only: pings, pongs and empty fragments would be free.
type frameBudget struct {
	left    float64 // frames that may still come at once
	counted time.Time

	head []byte // of a frame that has not come whole
	rest uint64 // bytes of the frame's payload that are still to come
}

func newFrameBudget() *frameBudget {
	return &frameBudget{left: maxFrames, head: make([]byte, 0, maxFrameHead)}
}

// isSpent reports whether more frames came than may.
func (b *frameBudget) isSpent() bool { return b.left < 0 }

// spend counts the frames that begin in p, which follows what came before.
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
			b.head, b.rest = b.head[:0], size
			b.left--
		}
	}
}

// maxFrameHead is how many bytes come before a frame's payload.
const maxFrameHead = 14

// payloadSize is the size of a frame's payload, once its head is whole, see RFC 6455, 5.2.
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
	if head[1]&0x80 != 0 {
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
