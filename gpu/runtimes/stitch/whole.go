package stitch

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"time"
)

const (
	// readLimit is how long one clip may be read to see whether it is whole. A slower clip is
	// accepted: the host is slow, and nothing is known to be wrong.
	readLimit = time.Minute
	// A clip is cut short if more than leastMissing seconds and this share of its length cannot
	// be read. Headers round, and the last picture may have no length.
	leastMissing, missingShare = 0.5, 0.05
)

// whole finds the clip's most frequent frame rate, and returns an error if the file ends before its header says, as a file does whose copy was
// interrupted. It reads the file and decodes nothing.
func (c *clip) whole(ctx context.Context) error {
	args := append([]string{"-v", "error"}, guarded...)
	if c.timed {
		args = append(args, "-select_streams", "V:0")
	}
	args = append(args, "-of", "csv=p=0", "-show_entries", "packet=pts_time,duration_time", c.path)
	limited, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	command := exec.CommandContext(limited, "ffprobe", args...)
	dieWithParent(command)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return err
	}
	first, last := math.Inf(1), math.Inf(-1)
	var times []float64
	for lines := bufio.NewScanner(out); lines.Scan(); {
		at, lasts, _ := strings.Cut(lines.Text(), ",")
		if at != "N/A" {
			times = append(times, number(at))
			first, last = min(first, number(at)), max(last, number(at)+number(lasts))
		}
	}
	_ = command.Wait() // a file that is cut short may be an error or not
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return nil
	}
	if c.timed {
		c.fps = frequentRate(c.fps, times)
	}
	read := max(0, last-first)
	cut := strings.Contains(said.String(), "partial file") || strings.Contains(said.String(), "ended prematurely")
	if cut || c.seconds-read > max(leastMissing, missingShare*c.seconds) {
		return fmt.Errorf("it is cut short: its header says %.2f s, and %.2f s of it can be read. Upload the whole file", c.seconds, read)
	}
	return nil
}
