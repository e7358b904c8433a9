package main

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/reelay/reelay/client"
	"golang.org/x/term"
)

// display shows progress: one live line on a terminal, otherwise a plain line for each
// change.
type display struct {
	out    io.Writer
	tty    bool
	color  bool
	silent bool
	width  func() int

	live  bool // the cursor is on a live line
	trail trail
	told  string // the phase and the tenth of the last plain line
	err   error  // the first failed write; nothing is written after it
}

func newDisplay(out io.Writer) *display {
	d := &display{out: out, width: func() int { return 80 }}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return d
	}
	d.tty, d.color = true, os.Getenv("NO_COLOR") == ""
	d.width = func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil || width < 1 {
			return 80
		}
		return width
	}
	return d
}

// note writes a permanent line.
func (d *display) note(line string) {
	d.erase()
	d.write(line + "\n")
}

// job shows a job's progress. For a failed or cancelled job the last line stays. It
// returns an error when the output is closed.
func (d *display) job(job *client.Job) error {
	if !job.Status.Terminal() || job.Status == client.JobStatusCompleted {
		d.progress(job.Progress)
	}
	return d.err
}

func (d *display) progress(p client.Progress) {
	back := p.Percent < d.trail.last.Percent
	d.trail.add(p)
	if d.tty {
		// leave the last column free: some terminals wrap there
		d.replace(view{d.width() - 1, d.color}.line(p, d.trail))
		return
	}
	if told := fmt.Sprintf("%s %d", p.Phase, int(p.Percent/10)); told != d.told || back {
		d.told = told
		d.write(fmt.Sprintf("%3.0f %%  %s\n", math.Floor(p.Percent), describe(p)))
	}
}

// transfer shows how much of a file is stored. It prints nothing unless the output is a
// terminal.
func (d *display) transfer(done, total int64) {
	if !d.tty || total <= 0 {
		return
	}
	percent := float64(done) / float64(total) * 100
	v := view{d.width() - 1, d.color}
	text := fmt.Sprintf("  %s of %s", formatSize(done), formatSize(total))
	head := fmt.Sprintf("%3.0f %% ", math.Floor(percent))
	cells := min(v.width-len(head)-len(text), maxBar)
	if cells < minBar {
		d.replace(clip(head+text, v.width))
		return
	}
	d.replace(head + v.bar(percent, trail{}, cells) + text)
}

// keep ends the live line and leaves it on the screen.
func (d *display) keep() {
	if d.live {
		d.write("\n")
	}
	d.live = false
}

func (d *display) replace(line string) {
	d.write("\r" + line + "\x1b[K")
	d.live = true
}

func (d *display) erase() {
	if d.live {
		d.write("\r\x1b[K")
	}
	d.live = false
}

func (d *display) write(text string) {
	if d.silent || d.err != nil {
		return
	}
	_, d.err = io.WriteString(d.out, text)
}
