package videos

import (
	"context"
	"sync"

	"github.com/reelay/reelay/models"
)

const (
	// maxLarge bounds the memory that bodies use: each about three times maxBody, until
	// its response is sent.
	maxLarge = 8
	// maxLargeEach bounds the large bodies of one account at the same time, so that slow
	// uploads of one account do not hold up the others.
	maxLargeEach = 3
)

// largeBodies has a slot for each body that can be large at the same time.
type largeBodies struct {
	all  chan struct{}
	each sync.Map // AccountID → chan struct{}
}

func newLargeBodies() *largeBodies { return &largeBodies{all: make(chan struct{}, maxLarge)} }

// take waits for a slot. The caller must call release, or gets ctx's error.
func (l *largeBodies) take(ctx context.Context, account models.AccountID) (release func(), err error) {
	slots, _ := l.each.LoadOrStore(account, make(chan struct{}, maxLargeEach))
	own := slots.(chan struct{})
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case l.all <- struct{}{}:
		return func() { <-l.all; <-own }, nil
	case <-ctx.Done():
		<-own
		return nil, ctx.Err()
	}
}
