package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Process is a process of this machine, as Linux sees it; 0 is none.
type Process int

// memory is how much of the process is and was at most in memory, in bytes.
func (p Process) memory() (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d, which takes Linux: %w", p, err)
	}
	for name, to := range map[string]*int64{"VmRSS:": &now, "VmHWM:": &peak} {
		_, rest, _ := bytes.Cut(status, []byte(name))
		if _, err := fmt.Sscanf(string(rest), "%d kB", to); err != nil {
			return 0, 0, fmt.Errorf("read %s of process %d: %w", name, p, err)
		}
		*to <<= 10
	}
	return now, peak, nil
}

// cpu is the processor time that the process has had.
func (p Process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		return 0, fmt.Errorf("read the time of process %d: %w", p, err)
	}
	// after the name, which may hold anything but a newline, come state and 10 others
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("read the time of process %d: %w", p, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // a tick is 10 ms on all Linux
}
