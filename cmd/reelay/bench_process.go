package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// apiProcess is the one api process of a stack, as Linux sees it.
type apiProcess struct{ pid int }

func findAPI(data string) (apiProcess, error) {
	raw, err := os.ReadFile(filepath.Join(data, rosterFile))
	if err != nil {
		return apiProcess{}, err
	}
	pids := map[string]int{}
	if err := json.Unmarshal(raw, &pids); err != nil {
		return apiProcess{}, fmt.Errorf("read the list of processes: %w", err)
	}
	return apiProcess{pids["api-1"]}, nil
}

// memory is how much of the process is and was at most in memory, in bytes.
func (p apiProcess) memory() (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of the api process, which takes Linux: %w", err)
	}
	for name, to := range map[string]*int64{"VmRSS:": &now, "VmHWM:": &peak} {
		_, rest, _ := bytes.Cut(status, []byte(name))
		if _, err := fmt.Sscanf(string(rest), "%d kB", to); err != nil {
			return 0, 0, fmt.Errorf("read %s of the api process: %w", name, err)
		}
		*to <<= 10
	}
	return now, peak, nil
}

// cpu is the processor time that the process has had.
func (p apiProcess) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, fmt.Errorf("read the time of the api process: %w", err)
	}
	// after the name, which may hold anything but a newline, come state and 10 others
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("read the time of the api process: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // a tick is 10 ms on all Linux
}
