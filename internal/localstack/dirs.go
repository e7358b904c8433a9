package localstack

import (
	"os"
	"path/filepath"
	"strings"
)

// maxSocketPath is the longest path of a Unix socket on every system of ours:
// 107 bytes on Linux, 103 on macOS.
const maxSocketPath = 103

// fitsSocket reports whether the system and the syntax of a DSN allow a socket
// called name in dir.
func fitsSocket(dir, name string) bool {
	return len(filepath.Join(dir, name)) <= maxSocketPath && !strings.ContainsAny(dir, `,"'\`)
}

// syncDir makes the names in dir survive a power cut.
func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}
