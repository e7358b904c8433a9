package shell

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// Logs reads stored logs.
type Logs interface {
	// OpenRange reads size bytes of an object from offset on, or returns jobs.ErrNoObject.
	OpenRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error)
}

const (
	// tailBytes is how much of a log is read for its last lines, and tailLines how many are shown.
	tailBytes = 16 << 10
	tailLines = 40
	// tailWidth is how many characters of a line are shown.
	tailWidth = 400
)

// LogTail is the end of a stored log.
type LogTail struct {
	ID    models.ArtifactID
	Lines []string
	// Cut is true if the log has lines before these.
	Cut bool
	// Problem is why there are no lines.
	Problem string
}

// ReadTail reads the last lines of a log. It returns nil if there is no log. A log that cannot be
// read has a Problem: the rest of the page is still useful.
func (c *Shell) ReadTail(ctx context.Context, p jobs.Principal, id models.ArtifactID) (*LogTail, error) {
	if id == "" || c.Logs == nil {
		return nil, nil
	}
	a, err := c.Reads.Jobs.Artifact(ctx, p, id)
	if err != nil {
		return &LogTail{Problem: "The log is no longer stored."}, nil //nolint:nilerr // the page shows it
	}
	tail := &LogTail{ID: id}
	offset := max(a.SizeBytes-tailBytes, 0)
	object, err := c.Logs.OpenRange(ctx, a.ObjectKey, offset, tailBytes)
	if errors.Is(err, jobs.ErrNoObject) {
		tail.Problem = "The log is no longer stored."
		return tail, nil
	}
	if err != nil {
		tail.Problem = "The object store did not respond: reload the page."
		return tail, nil
	}
	defer object.Close()
	data, err := io.ReadAll(io.LimitReader(object, tailBytes))
	if err != nil {
		tail.Problem = "The object store did not respond: reload the page."
		return tail, nil
	}
	tail.Lines, tail.Cut = tailOf(string(data), offset > 0)
	return tail, nil
}

// tailOf returns the last lines of a text without terminal codes, and whether lines are missing. If
// the text begins within a log, its first line is a part of one.
func tailOf(data string, within bool) (lines []string, cut bool) {
	data = strings.TrimRight(text.WithoutEscapes(strings.ToValidUTF8(data, "�")), "\r\n")
	lines = strings.Split(data, "\n")
	if within && len(lines) > 1 {
		lines = lines[1:]
	}
	cut = within
	if len(lines) > tailLines {
		lines, cut = lines[len(lines)-tailLines:], true
	}
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if at := strings.LastIndexByte(line, '\r'); at >= 0 {
			line = line[at+1:] // a progress bar overwrites its line
		}
		lines[i] = text.Printable(ui.Upright(text.Clip(line, tailWidth)))
	}
	return lines, cut
}
