package support

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
)

// queries are what is asked of the API. None of them returns a prompt, a parameter or the text of an error that
// a model printed.
var queries = []struct{ name, document string }{
	{"system", `{ version system { version redisVersion outboxLagSeconds schedulerLagSeconds stalledJobs agents { version workers }
		database { version startedAt sizeBytes connections maxConnections standbys standbyLagSeconds }
		processes { kind seenAt version host startedAt }
		region { region serves primary epoch since commitsWaitFor warnings { problem fix } standbys { name state lagSeconds behindBytes }
		promotions { epoch region at from learned } peers { answers region serves epoch answeredAt trouble } } } }`},
	{"queues", `{ queues { tier model depth running promoted oldestWaitSeconds waitSecondsP50 waitSecondsP95 estimatedDrainSeconds
		blockedReason } }`},
	{"pools", `{ pools { id name provider region gpuType capacityClass models minWorkers maxWorkers warmWorkers paused state warnings desired booting
		idle busy draining paidWorkers backoffUntil backoffReason } }`},
	{"workers", `{ workers(first: 200) { edges { node { id provider providerInstanceId region zone gpuType capacityClass status models agentVersion
		registeredAt lastHeartbeatAt quarantinedUntil quarantineReason bootFailure jobsCompleted } } } }`},
	{"attention", `{ attention { kind title detail since urgent } halts { what by since reason } }`},
	{"alerts", `{ alerts(active: false) { name severity message since firedAt resolvedAt value threshold } }`},
	{"dead_letters", `{ deadLetterStats { total byClass byModel byProvider oldestAgeSeconds }
		deadLetterGroups { fingerprint failureClass model count firstAt lastAt } }`},
	{"changes", `{ changes(first: 100) { edges { node { at kind action title } } } }`},
}

// keysOf returns the keys in a data folder of `up`, so that they can be removed from texts.
func keysOf(data string) []string {
	var keys []string
	for _, name := range []string{credentials.FileName, "stores.json", "secrets.json"} {
		text, err := os.ReadFile(filepath.Join(data, name))
		var values map[string]any
		if err != nil || json.Unmarshal(text, &values) != nil {
			continue
		}
		for name, value := range values {
			if secret, ok := value.(string); ok && strings.HasSuffix(strings.ToLower(name), "key") {
				keys = append(keys, secret)
			}
		}
	}
	return keys
}

const (
	// logEnd is how much of the end of each log is kept, in bytes.
	logEnd = 64 << 10
	// maxLogs is of how many logs, the newest first.
	maxLogs = 50
	// journalLimit limits the wait for the journal.
	journalLimit = 20 * time.Second
)

// logs adds the ends of the logs in the data folder, and the journal of the services.
func (b *bundle) logs(ctx context.Context) {
	for _, path := range logsIn(b.data) {
		text, err := endOf(path)
		name, _ := filepath.Rel(b.data, path)
		if err != nil {
			b.fail(name, err)
			continue
		}
		b.add("logs/"+strings.ReplaceAll(name, string(filepath.Separator), "-"), text)
	}
	if _, err := exec.LookPath("journalctl"); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, journalLimit)
	defer cancel()
	text, err := exec.CommandContext(ctx, "journalctl", "--unit=reelay*", "--lines=2000", "--no-pager", "--output=short-iso").Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && !strings.Contains(string(exit.Stderr), "No journal files") {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	} else if ok {
		err = nil // it is installed, but not in use
	}
	if err != nil {
		b.fail("the journal", err)
	} else if len(text) > 0 {
		b.add("logs/journal.txt", string(text))
	}
}

// logsIn lists the newest logs below a data folder.
func logsIn(data string) []string {
	var found []string
	changed := map[string]time.Time{}
	for _, pattern := range []string{"*.log", "*/*.log"} {
		paths, _ := filepath.Glob(filepath.Join(data, pattern)) // the pattern is well formed
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				found, changed[path] = append(found, path), info.ModTime()
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return changed[b].Compare(changed[a]) })
	return found[:min(len(found), maxLogs)]
}

func endOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > logEnd {
		if _, err := file.Seek(-logEnd, io.SeekEnd); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, logEnd))
	return string(text), err
}
