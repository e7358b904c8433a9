//go:build unix && !linux

package main

import "time"

// endOrphans does nothing: orphans are adopted on Linux only. Elsewhere only the guards of
// internal/localstack end the processes that tests started.
func endOrphans(time.Duration) (killed []string) { return nil }
