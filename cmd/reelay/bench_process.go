package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/bench"
)

// findStaff is the processes of the `up` that runs in data.
func findStaff(data string) (map[string]bench.Process, error) {
	raw, err := os.ReadFile(filepath.Join(data, rosterFile))
	if err != nil {
		return nil, err
	}
	staff := map[string]bench.Process{}
	if err := json.Unmarshal(raw, &staff); err != nil {
		return nil, fmt.Errorf("read the list of processes: %w", err)
	}
	return staff, nil
}
