package batch

import (
	"context"
	"sync"
)

// Keyed has one Group per key: calls with the same key run together, and no key waits for
// another. A key's group exists while it has calls.
type Keyed[K comparable, T any] struct {
	// MaxSize bounds a batch; 0 means the constant MaxSize.
	MaxSize int

	mu     sync.Mutex
	groups map[K]*member[T]
}

// member is the group of one key.
type member[T any] struct {
	Group[T]
	calls int
}

// Do calls Group.Do on the group of key.
func (k *Keyed[K, T]) Do(ctx context.Context, key K, item T, run Run[T]) error {
	g := k.enter(key)
	defer k.exit(key, g)
	return g.Do(ctx, item, run)
}

func (k *Keyed[K, T]) enter(key K) *member[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.groups[key]
	if g == nil {
		if k.groups == nil {
			k.groups = map[K]*member[T]{}
		}
		g = &member[T]{Group: Group[T]{MaxSize: k.MaxSize}}
		k.groups[key] = g
	}
	g.calls++
	return g
}

func (k *Keyed[K, T]) exit(key K, g *member[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if g.calls--; g.calls == 0 {
		delete(k.groups, key)
	}
}

// Calls returns how many calls are waiting or running.
func (k *Keyed[K, T]) Calls() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, g := range k.groups {
		n += g.calls
	}
	return n
}
