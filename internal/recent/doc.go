// Package recent has caches whose values live for a second.
package recent
