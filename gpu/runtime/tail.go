package runtime

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

const tailSize = 64 << 10

// tail keeps the last tailSize bytes written to it and counts all bytes. What was written before the
// last forget is not shown.
type tail struct {
	mu      sync.Mutex
	ring    [tailSize]byte
	written int64
	begun   int64 // what was written before the last forget
}

// Write never fails and never blocks.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	all := len(p)
	if skip := len(p) - tailSize; skip > 0 {
		t.written += int64(skip)
		p = p[skip:]
	}
	for len(p) > 0 {
		n := copy(t.ring[t.written%tailSize:], p)
		t.written += int64(n)
		p = p[n:]
	}
	return all, nil
}

// forget drops everything written so far.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.begun = t.written
}

// String returns the kept text, preceded by a line that says how much was
// dropped. It also drops a partly overwritten first line, since redaction cannot
// recognise half a secret.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()

	kept := string(t.since(t.begun))
	if int64(len(kept)) == t.written-t.begun {
		return strings.ToValidUTF8(kept, "\uFFFD")
	}
	if _, whole, ok := strings.Cut(kept, "\n"); ok {
		kept = whole
	}
	return fmt.Sprintf("[%d earlier bytes were dropped]\n%s", t.written-t.begun-int64(len(kept)), strings.ToValidUTF8(kept, "\uFFFD"))
}

// since returns what was written after a position, if it is still kept. The caller holds mu.
func (t *tail) since(position int64) []byte {
	from := max(position, t.written-tailSize)
	kept := make([]byte, 0, t.written-from)
	for from < t.written {
		at := from % tailSize
		n := min(tailSize-at, t.written-from)
		kept = append(kept, t.ring[at:at+n]...)
		from += n
	}
	return kept
}

// Since returns what was written after a position and is still kept, and the position of its
// end. A negative position is that of the last forget.
func (t *tail) Since(position int64) (kept []byte, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if position < 0 {
		position = t.begun
	}
	position = min(position, t.written)
	kept = t.since(position)
	if int64(len(kept)) < t.written-position { // the first line lacks its beginning
		_, kept, _ = bytes.Cut(kept, []byte("\n"))
	}
	return kept, t.written
}

// lastWords returns the end of the kept text, short enough to quote in a message.
func (t *tail) lastWords() string {
	const most = 600

	words := strings.TrimSpace(t.String())
	if len(words) > most {
		words = "…" + strings.ToValidUTF8(words[len(words)-most:], "")
	}
	return words
}
