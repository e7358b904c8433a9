//go:build unix && !linux

package stitch

import "os/exec"

// dieWithParent does nothing, since only Linux has a parent death signal. The runtime ends the
// whole process group.
func dieWithParent(*exec.Cmd) {}
