package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// discountStalePID deals with the postmaster.pid that a killed server leaves.
//
// While that server is still ending, it waits. Otherwise the pid may by now be
// anybody's, and PostgreSQL would refuse to start as long as it is alive. So it
// gets ours, which PostgreSQL discounts as its parent's. The rest of the file
// stays: by it PostgreSQL knows whether children of the dead server still use
// its memory. The directory's lock is held, so no other server is starting.
func discountStalePID(ctx context.Context, data string) error {
	path := filepath.Join(data, "postmaster.pid")
	for {
		content, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the mark of an earlier server: %w", err)
		}
		first, rest, _ := bytes.Cut(content, []byte("\n"))
		pid, err := strconv.Atoi(string(bytes.TrimSpace(first)))
		if err != nil || pid <= 0 || !strings.Contains(commandLine(pid), data) {
			return os.WriteFile(path, append([]byte(strconv.Itoa(os.Getpid())+"\n"), rest...), 0o600)
		}
		if pause(ctx) != nil {
			return fmt.Errorf("a PostgreSQL server (process %d) already uses %s: stop it first", pid, data)
		}
	}
}
