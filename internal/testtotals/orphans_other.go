//go:build unix && !linux

package main

import "time"

// Orphans are adopted on Linux only. Elsewhere guards alone end what was started:
// see internal/localstack.

func adoptOrphans() error { return nil }

func reapOrphans(int) (stop func()) { return func() {} }

func endOrphans(time.Duration) (killed []string) { return nil }
