package runtime

import (
	"slices"
	"sync"
)

// maxWaiting is how many messages can wait for a slow reader. Consecutive messages about the
// current state count as one of each type, since only the newest is kept.
const maxWaiting = 1000

// mailbox hands messages to a reader without ever blocking their writer.
type mailbox struct {
	messages chan Message

	mu      sync.Mutex
	waiting []Message
	ended   bool
	changed chan struct{}
}

func newMailbox() *mailbox {
	return &mailbox{messages: make(chan Message), changed: make(chan struct{}, 1)}
}

// put appends a message. It reports false if the mailbox is full.
func (b *mailbox) put(message Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()

	for i := len(b.waiting) - 1; i >= 0 && isState(message) && isState(b.waiting[i]); i-- {
		if b.waiting[i].name() == message.name() {
			b.waiting = append(slices.Delete(b.waiting, i, i+1), message)
			return true
		}
	}
	if len(b.waiting) >= maxWaiting {
		return false
	}
	b.waiting = append(b.waiting, message)
	return true
}

// isState reports whether a message is about the current state, so that a newer one replaces it.
func isState(message Message) bool {
	switch message.(type) {
	case *Progress, *Preview, *Metrics, *Handle:
		return true
	}
	return false
}

// end closes the channel once the reader has received the waiting messages.
func (b *mailbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.ended = true
	b.wake()
}

func (b *mailbox) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// deliver runs until the reader has received everything or abandoned is closed.
func (b *mailbox) deliver(abandoned <-chan struct{}) {
	defer close(b.messages)
	for {
		message, ended := b.take()
		if message == nil && ended {
			return
		}
		if message == nil {
			select {
			case <-b.changed:
			case <-abandoned:
				return
			}
			continue
		}
		select {
		case b.messages <- message:
		case <-abandoned:
			return
		}
	}
}

// take removes and returns the oldest message, or nil if there is none. It also
// reports whether the mailbox has ended.
func (b *mailbox) take() (Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if len(b.waiting) == 0 {
		return nil, b.ended
	}
	message := b.waiting[0]
	b.waiting = append(b.waiting[:0], b.waiting[1:]...)
	return message, b.ended
}
