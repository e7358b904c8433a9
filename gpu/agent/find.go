package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const defaultEndpoint = "http://127.0.0.1:8080"

// running is what `reelay up` writes to its folder for the programs beside it.
type running struct {
	Endpoint  string `json:"endpoint"`
	WorkerKey string `json:"workerKey"`
	CAFile    string `json:"caFile"`
}

// find completes the endpoint, the key and the file of certificates with those of a `reelay up` in the data
// folder, as the command line does. Its key and its certificate are only used with its own endpoint.
func (s *settings) find() error {
	up, err := readRunning(filepath.Join(s.data, "credentials.json"))
	if err != nil {
		return err
	}
	if s.endpoint == "" {
		s.endpoint = up.Endpoint
	}
	if s.endpoint == "" {
		s.endpoint = defaultEndpoint
	}
	if strings.TrimSuffix(s.endpoint, "/") != strings.TrimSuffix(up.Endpoint, "/") {
		return nil
	}
	if s.key == "" {
		s.key = up.WorkerKey
	}
	if s.caFile == "" {
		s.caFile = up.CAFile
	}
	return nil
}

// readRunning returns nothing if the file does not exist. It refuses one that other users can read.
func readRunning(path string) (up running, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return up, nil
	}
	if err != nil {
		return up, fmt.Errorf("--data: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return up, fmt.Errorf("--data: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return up, fmt.Errorf("%s contains keys and can be read by other users: run `chmod 600 %s`", path, path)
	}
	if err := json.NewDecoder(io.LimitReader(file, 1<<20)).Decode(&up); err != nil {
		return up, fmt.Errorf("%s was not written by `reelay up`: %w", path, err)
	}
	return up, nil
}
