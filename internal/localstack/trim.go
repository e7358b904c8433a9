package localstack

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"
)

const (
	// maxLog is the approximate maximum size of a child's log. The older text is kept in a
	// file with the suffix .1.
	maxLog = 16 << 20
	// trimEvery is how often the log of a running child is checked.
	trimEvery = time.Minute
)

// keepTrimmed trims a log until ctx ends.
func keepTrimmed(ctx context.Context, path string) {
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := trimLog(path); err != nil {
			slog.WarnContext(ctx, "a log cannot be trimmed and keeps growing", "log", path, "error", err)
		}
	}
}

// trimLog empties a log that has grown too long and keeps its text in a second file. Its
// writers append, so they continue at the beginning. What they write during the copy is
// lost.
func trimLog(path string) error {
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	if info, err := log.Stat(); err != nil || info.Size() <= maxLog {
		return err
	}
	older, err := os.OpenFile(path+".1", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer older.Close()
	if _, err := io.Copy(older, log); err != nil {
		return err
	}
	return log.Truncate(0)
}
