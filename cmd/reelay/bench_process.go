package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/bench"
)

// findAPI is the first api process of the `up` that runs in data.
func findAPI(data string) (bench.Process, error) {
	raw, err := os.ReadFile(filepath.Join(data, rosterFile))
	if err != nil {
		return 0, err
	}
	pids := map[string]int{}
	if err := json.Unmarshal(raw, &pids); err != nil {
		return 0, fmt.Errorf("read the list of processes: %w", err)
	}
	return bench.Process(pids["api-1"]), nil
}
