package httpguard

import (
	"context"
	"sync"
	"time"
)

const (
	// SmallBody is the size up to which a body needs no place, in bytes.
	SmallBody = 1 << 20
	// LargeBody is the size up to which GraphQL and REST read a body that has a place, in
	// bytes. It has room for a workflow of 10,000 jobs.
	LargeBody = 8 << 20
)

// LargeBodies are the places of large bodies. They bound the memory that such bodies use,
// whatever clients send. A body has its place before it is read, so one account has only a
// share of them: its slow uploads do not hold up the other accounts.
type LargeBodies struct {
	all  chan struct{}
	each int
	own  sync.Map // account → chan struct{}, of each places
	wait time.Duration
}

// NewLargeBodies returns places for all bodies at the same time, each of them of one account. A
// body waits for its place as long as wait.
func NewLargeBodies(all, each int, wait time.Duration) *LargeBodies {
	return &LargeBodies{all: make(chan struct{}, all), each: each, wait: wait}
}

// Enter waits for a place of the account, which is free again when leave is called. It reports
// whether it has one.
func (l *LargeBodies) Enter(ctx context.Context, account string) (leave func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	share, _ := l.own.LoadOrStore(account, make(chan struct{}, l.each))
	own := share.(chan struct{})
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	select {
	case l.all <- struct{}{}:
		return func() { <-l.all; <-own }, true
	case <-ctx.Done():
		<-own
		return nil, false
	}
}
