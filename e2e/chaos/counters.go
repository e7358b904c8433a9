package main

import (
	"maps"
	"slices"
	"sync"
)

// counters count events by name.
type counters struct {
	mu    sync.Mutex
	count map[string]int
}

func newCounters() *counters { return &counters{count: map[string]int{}} }

func (c *counters) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[name] += n
}

func (c *counters) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[name]
}

func (c *counters) copy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
