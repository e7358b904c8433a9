//go:build unix

package seal

import (
	"os"
	"syscall"
)

func ownerOf(info os.FileInfo) (owner, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, false
	}
	return owner{int(stat.Uid), int(stat.Gid)}, true
}
