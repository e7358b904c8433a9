// Package procfs reads the memory and the processor time of processes from /proc.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Process is the id of a process of this Linux machine; 0 means none.
type Process int

// Family returns the process and its children.
func (p Process) Family() ([]Process, error) {
	all := []Process{p}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p))
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range bytes.Fields(raw) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				return nil, fmt.Errorf("read the children of process %d: %w", p, err)
			}
			all = append(all, Process(child))
		}
	}
	return all, nil
}

// Memory returns the current and the peak resident memory in bytes.
func (p Process) Memory() (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d (possible on Linux only): %w", p, err)
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

// CPU returns the processor time of the process and its ended children.
func (p Process) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		return 0, fmt.Errorf("read the time of process %d: %w", p, err)
	}
	// the name, which can contain anything but a newline, is followed by the state and 10 others
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("read the time of process %d: %w", p, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // a tick is 10 ms on every Linux
}
