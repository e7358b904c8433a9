package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// display shows progress: one live line on a terminal, otherwise a plain line for each
// change.
type display struct {
	out    io.Writer
	tty    bool
	color  bool
	silent bool
	// pictures reports whether the terminal shows 24-bit colours, which pictures need.
	pictures bool
	width    func() int

	live bool // the cursor is on a live line
	// picture is shown above the live line, once it is drawn.
	picture []string
	drawn   int // lines of the picture above the live line
	trail   trail
	told    string // the phase and the tenth of the last plain line, and why the job waits
	// reasons are why the job waits, the most informative first; none while it does not.
	reasons []client.WaitingReason
	err     error // the first failed write; nothing is written after it
}

func newDisplay(out io.Writer) *display {
	d := &display{out: out, width: func() int { return 80 }}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return d
	}
	d.tty, d.color = true, os.Getenv("NO_COLOR") == ""
	depth := os.Getenv("COLORTERM")
	d.pictures = d.color && (depth == "truecolor" || depth == "24bit")
	d.width = func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil || width < 1 {
			return 80
		}
		return width
	}
	return d
}

// displayFor returns the display of a command, without colours if --no-color is given.
func displayFor(cmd *cobra.Command, out io.Writer) *display {
	d := newDisplay(out)
	if output.NoColor(cmd) {
		d.color, d.pictures = false, false
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
	why := ""
	if len(d.reasons) > 0 {
		p.Message, p.EtaSeconds, why = &d.reasons[0].Message, nil, string(d.reasons[0].Code)
	}
	if d.tty {
		// leave the last column free: some terminals wrap there
		d.replace(view{d.width() - 1, d.color}.line(p, d.trail))
		return
	}
	if told := fmt.Sprintf("%s %d %s", p.Phase, int(p.Percent/10), why); told != d.told || back {
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
		d.replace(output.Clip(head+text, v.width))
		return
	}
	d.replace(head + v.bar(percent, trail{}, cells) + text)
}

// show puts a picture above the live line, in place of the previous one.
func (d *display) show(picture []string) {
	d.erase()
	d.picture = picture
}

// keep ends the live line and leaves it on the screen, with the picture.
func (d *display) keep() {
	if d.live {
		d.write("\n")
	}
	d.live, d.drawn, d.picture = false, 0, nil
}

func (d *display) replace(line string) {
	if !d.live {
		for _, row := range d.picture {
			d.write(row + "\n")
		}
		d.live, d.drawn = true, len(d.picture)
	}
	d.write("\r" + line + "\x1b[K")
}

// erase removes the live line and the picture above it. The next live line shows the picture again.
func (d *display) erase() {
	if d.live {
		d.write("\r")
		if d.drawn > 0 {
			d.write(fmt.Sprintf("\x1b[%dA", d.drawn))
		}
		d.write("\x1b[J")
	}
	d.live, d.drawn = false, 0
}

func (d *display) write(text string) {
	if d.silent || d.err != nil {
		return
	}
	_, d.err = io.WriteString(d.out, text)
}

// trail is the history that the bar shows: the highest progress so far and the points
// where the job resumed.
type trail struct {
	last     client.Progress
	furthest float64
	resumed  []float64
}

// add records the newest progress. If it is lower than before, the job resumed.
func (t *trail) add(p client.Progress) {
	resumes := p.Phase == client.PhaseResuming && t.last.Phase != client.PhaseResuming
	if resumes || p.Percent < t.last.Percent {
		t.resumed = append(t.resumed, p.Percent)
	}
	t.last, t.furthest = p, max(t.furthest, p.Percent)
}

// view is the width and the style of the lines on a terminal.
type view struct {
	width int
	color bool
}

const (
	minBar, maxBar = 10, 40

	green, yellow, red, dim, plain = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"
)

// line returns the bar with percent, phase and details, at most as wide as the view.
func (v view) line(p client.Progress, t trail) string {
	head := fmt.Sprintf("%3.0f %% ", math.Floor(p.Percent))
	text := "  " + describe(p)
	cells := min(max(v.width-len(head)-output.Width(text), minBar), maxBar)
	if v.width < len(head)+minBar {
		return output.Clip(head, v.width)
	}
	return head + v.bar(p.Percent, t, cells) + output.Clip(text, v.width-len(head)-cells)
}

// bar fills cells up to percent. Lost work that is repeated is shaded; the points where
// the job resumed stay marked.
func (v view) bar(percent float64, t trail, cells int) string {
	at := func(p float64) int { return int(math.Round(p / 100 * float64(cells))) }
	done, lost := at(percent), at(t.furthest)
	var b strings.Builder
	painted := ""
	for i := range cells {
		cell, paint := "░", dim
		switch {
		case slices.ContainsFunc(t.resumed, func(p float64) bool { return p > 0 && at(p) == i }):
			cell, paint = "┃", yellow
		case i < done:
			cell, paint = "█", green
		case i < lost:
			cell, paint = "▒", yellow
		}
		if v.color && paint != painted {
			b.WriteString(plain + paint)
			painted = paint
		}
		b.WriteString(cell)
	}
	if painted != "" {
		b.WriteString(plain)
	}
	return b.String()
}

// describe returns the phase, the details and the remaining time.
func describe(p client.Progress) string {
	parts := []string{strings.ReplaceAll(string(p.Phase), "_", " ")}
	switch {
	case p.Phase == client.PhaseDone:
		return parts[0]
	case p.Message != nil && *p.Message != "":
		parts = append(parts, output.Clean(*p.Message))
	case p.Frame != nil && p.TotalFrames != nil:
		parts = append(parts, fmt.Sprintf("frame %d of %d", *p.Frame, *p.TotalFrames))
	}
	if p.EtaSeconds != nil && *p.EtaSeconds >= 1 {
		parts = append(parts, text.Seconds(*p.EtaSeconds)+" left")
	}
	return strings.Join(parts, " · ")
}
