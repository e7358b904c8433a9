//go:build unix && !linux

package testrun

// unmountBelow does nothing: tests mount on Linux only.
func unmountBelow(string) {}
