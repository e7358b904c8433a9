// Package recent has caches whose values live for a second, counted from before they were looked up.
//
// It is not the expirable cache of golang-lru: that one counts from when a value is stored, so a slow
// look-up would extend the life of a revoked key, and each of its caches has a goroutine that never ends.
package recent
