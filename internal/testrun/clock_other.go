//go:build unix && !linux

package testrun

import "time"

func stallTime() (time.Duration, bool) { return 0, false }
