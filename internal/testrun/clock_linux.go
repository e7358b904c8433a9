package testrun

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// stallTime is how long, in all, some process has waited for a processor or a
// disk: of this container if there is one, else of the machine. It is false on a
// kernel without pressure stall information.
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
