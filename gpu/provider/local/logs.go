package local

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keepLogs is how many logs of ended instances are kept.
const keepLogs = 50

func logName(instanceID string) string { return "agent-" + instanceID + ".log" }

// pruneLogs deletes the logs of instances that have ended, except the newest. The
// caller holds mu.
func (p *Provider) pruneLogs() {
	dir := filepath.Join(p.config.Dir, "logs")
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // someone deleted the folder
	}
	if err != nil {
		slog.Warn("the agents' logs cannot be pruned", "error", err)
		return
	}
	running := map[string]bool{}
	for id := range p.instances {
		running[logName(id)] = true
	}
	ended := slices.DeleteFunc(files, func(file fs.DirEntry) bool {
		log, _, _ := strings.Cut(file.Name(), ".log.") // a rotated log goes with its newest part
		log = strings.TrimSuffix(log, ".log") + ".log"
		return running[log] || !strings.HasPrefix(log, "agent-")
	})
	slices.SortFunc(ended, func(a, b fs.DirEntry) int { return written(b).Compare(written(a)) })
	for _, file := range ended[min(keepLogs, len(ended)):] {
		if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
			slog.Warn("an agent's log cannot be deleted", "error", err)
		}
	}
}

// written returns when a file was last modified. A file that is gone counts as the
// oldest.
func written(file fs.DirEntry) time.Time {
	info, err := file.Info()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
