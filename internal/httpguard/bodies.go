package httpguard

import (
	"context"
	"time"
)

const (
	// SmallBody is the size up to which any body is read, in bytes.
	SmallBody = 1 << 20
	// LargeBody is the size up to which a body is read that has a place, in bytes. It
	// has room for a workflow of 10,000 jobs.
	LargeBody = 8 << 20
	// largeAtOnce is how many places there are: decoded, a body takes about ten times its size.
	largeAtOnce = 2
	placeWait   = 5 * time.Second
)

// LargeBodies are the places of large bodies. They bound the memory of a process, whatever its
// clients send.
type LargeBodies struct{ places chan struct{} }

// NewLargeBodies returns free places.
func NewLargeBodies() *LargeBodies {
	return &LargeBodies{make(chan struct{}, largeAtOnce)}
}

// Enter takes a place until leave is called. It waits for one, up to 5 seconds, and reports
// whether it has one.
func (l *LargeBodies) Enter(ctx context.Context) (leave func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, placeWait)
	defer cancel()
	select {
	case l.places <- struct{}{}:
		return func() { <-l.places }, true
	case <-ctx.Done():
		return nil, false
	}
}
