package testrun

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stallTime returns the total time in which some process waited for a processor or a disk,
// in this container if there is one, otherwise on the machine. known is false on a kernel
// without pressure stall information.
func stallTime() (total time.Duration, known bool) {
	for _, resource := range []string{"cpu", "io"} {
		text, err := os.ReadFile("/sys/fs/cgroup/" + resource + ".pressure")
		if err != nil {
			text, err = os.ReadFile("/proc/pressure/" + resource)
		}
		if err != nil {
			return 0, false
		}
		some, _, _ := strings.Cut(string(text), "\n")
		_, microseconds, _ := strings.Cut(some, "total=")
		n, err := strconv.ParseInt(microseconds, 10, 64)
		if err != nil {
			return 0, false
		}
		total += time.Duration(n) * time.Microsecond
	}
	return total, true
}

const (
	// memoryFolder is a folder that Linux keeps in memory.
	memoryFolder = "/dev/shm"
	// memoryRoom is how many bytes must be free there for a test binary: many times what
	// its tests write.
	memoryRoom = 4 << 30
)

// fastFolder returns a folder in memory if it has enough room, allows programs to run and
// supports file attributes, as tests need. There, copying a database for each test costs a
// fifth of the processor time and does not wait for a disk.
func fastFolder() (string, bool) {
	var room unix.Statfs_t
	if unix.Statfs(memoryFolder, &room) != nil || room.Flags&unix.ST_NOEXEC != 0 || int64(room.Bavail)*room.Bsize < memoryRoom {
		return "", false
	}
	probe, err := os.CreateTemp(memoryFolder, "reelay-probe-")
	if err != nil {
		return "", false
	}
	defer os.Remove(probe.Name())
	defer probe.Close()
	return memoryFolder, unix.Fsetxattr(int(probe.Fd()), "user.reelay", []byte("probe"), 0) == nil
}

// unmountBelow unmounts what tests have mounted below dir. It ignores errors, since the
// removal of dir then fails and reports them.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}
