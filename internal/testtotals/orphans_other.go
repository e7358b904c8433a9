//go:build unix && !linux

package main

import "time"

// Orphans are adopted on Linux only. Elsewhere only the guards of internal/localstack end
// the processes that tests started.

func adoptOrphans() error { return nil }

func reapOrphans(int) (stop func()) { return func() {} }

func endOrphans(time.Duration) (killed []string) { return nil }
