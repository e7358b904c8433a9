package runtime

import "sync"

// maxWaiting is how many messages may wait for a slow reader. Progress does not
// count: of two in a row only the newer one is kept.
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

	if last := len(b.waiting) - 1; last >= 0 {
		_, newer := message.(*Progress)
		_, older := b.waiting[last].(*Progress)
		if newer && older {
			b.waiting[last] = message
			return true
		}
	}
	if len(b.waiting) >= maxWaiting {
		return false
	}
	b.waiting = append(b.waiting, message)
	return true
}

// end lets the reader have what is waiting, and then a closed channel.
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

// deliver runs until the reader has everything, or abandoned is closed.
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

// take removes the oldest message, which is nil if there is none.
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
