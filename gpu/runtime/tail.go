package runtime

import (
	"fmt"
	"strings"
	"sync"
)

const tailSize = 64 << 10

// tail keeps the last tailSize bytes written to it and counts all bytes.
type tail struct {
	mu      sync.Mutex
	ring    [tailSize]byte
	written int64
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

	t.written = 0
}

// String returns the kept text, preceded by a line that says how much was
// dropped. It also drops a partly overwritten first line, since redaction cannot
// recognise half a secret.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.written <= tailSize {
		return strings.ToValidUTF8(string(t.ring[:t.written]), "\uFFFD")
	}
	cut := t.written % tailSize
	kept := string(t.ring[cut:]) + string(t.ring[:cut])
	if _, whole, ok := strings.Cut(kept, "\n"); ok {
		kept = whole
	}
	return fmt.Sprintf("[%d earlier bytes were dropped]\n%s", t.written-int64(len(kept)), strings.ToValidUTF8(kept, "\uFFFD"))
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
