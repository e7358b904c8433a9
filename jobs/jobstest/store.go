package jobstest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/jobs"
)

// BentStore is a store that a test can age or make fail.
type BentStore struct {
	jobs.Objects
	// Age is added to the age of each object.
	Age      time.Duration
	OnStat   func()
	OnDelete func(key string) error
	Deletes  atomic.Int64
}

func (b *BentStore) Stat(ctx context.Context, key string) (jobs.Object, error) {
	stat, err := b.Objects.Stat(ctx, key)
	if b.OnStat != nil {
		b.OnStat()
	}
	return stat, err
}

func (b *BentStore) List(ctx context.Context, after string, limit int) ([]jobs.StoredObject, error) {
	page, err := b.Objects.List(ctx, after, limit)
	for i := range page {
		page[i].CreatedAt = page[i].CreatedAt.Add(-b.Age)
	}
	return page, err
}

func (b *BentStore) Delete(ctx context.Context, key string) error {
	b.Deletes.Add(1)
	if b.OnDelete != nil {
		if err := b.OnDelete(key); err != nil {
			return err
		}
	}
	return b.Objects.Delete(ctx, key)
}
