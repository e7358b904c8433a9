//go:build unix && !linux

package testrun

import "time"

func stallTime() (time.Duration, bool) { return 0, false }

func fastFolder() (string, bool) { return "", false }

// unmountBelow does nothing, since tests only mount on Linux.
func unmountBelow(string) {}
