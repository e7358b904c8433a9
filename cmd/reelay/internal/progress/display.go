package progress

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

// Display shows progress: one live line on a terminal, otherwise a plain line for each
// change.
type Display struct {
	out    io.Writer
	TTY    bool
	Color  bool
	Silent bool
	// Pictures reports whether the terminal shows 24-bit colours, which pictures need.
	Pictures bool
	Width    func() int

	live bool // the cursor is on a live line
	// picture is shown above the live line, once it is drawn.
	picture   []string
	drawn     int // lines of the picture above the live line
	trail     Trail
	lastPlain string // the phase and the tenth of the last plain line, and why the job waits
	// Reasons are why the job waits, the most informative first; none while it does not.
	Reasons []client.WaitingReason
	Err     error // the first failed write; nothing is written after it
}

// NewDisplay returns the display of an output. Only a terminal gets a live line, colours and pictures.
func NewDisplay(out io.Writer) *Display {
	d := &Display{out: out, Width: func() int { return 80 }}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return d
	}
	d.TTY, d.Color = true, os.Getenv("NO_COLOR") == ""
	depth := os.Getenv("COLORTERM")
	d.Pictures = d.Color && (depth == "truecolor" || depth == "24bit")
	d.Width = func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil || width < 1 {
			return 80
		}
		return width
	}
	return d
}

// DisplayFor returns the display of a command, without colours if --no-color is given.
func DisplayFor(cmd *cobra.Command, out io.Writer) *Display {
	d := NewDisplay(out)
	if output.NoColor(cmd) {
		d.Color, d.Pictures = false, false
	}
	return d
}

// Note writes a permanent line.
func (d *Display) Note(line string) {
	d.Erase()
	d.write(line + "\n")
}

// Job shows a job's progress. For a failed or cancelled job the last line stays. It
// returns an error when the output is closed.
func (d *Display) Job(job *client.Job) error {
	if !job.Status.Terminal() || job.Status == client.JobStatusCompleted {
		d.progress(job.Progress)
	}
	return d.Err
}

func (d *Display) progress(p client.Progress) {
	back := p.Percent < d.trail.last.Percent
	d.trail.add(p)
	why := ""
	if len(d.Reasons) > 0 {
		p.Message, p.EtaSeconds, why = &d.Reasons[0].Message, nil, string(d.Reasons[0].Code)
	}
	if d.TTY {
		// leave the last column free: some terminals wrap there
		d.Replace(View{d.Width() - 1, d.Color}.line(p, d.trail))
		return
	}
	if told := fmt.Sprintf("%s %d %s", p.Phase, int(p.Percent/10), why); told != d.lastPlain || back {
		d.lastPlain = told
		d.write(fmt.Sprintf("%3.0f %%  %s\n", math.Floor(p.Percent), Describe(p)))
	}
}

// Transfer shows how much of a file is stored. It prints nothing unless the output is a
// terminal.
func (d *Display) Transfer(done, total int64) {
	if !d.TTY || total <= 0 {
		return
	}
	percent := float64(done) / float64(total) * 100
	v := View{d.Width() - 1, d.Color}
	text := fmt.Sprintf("  %s of %s", output.Size(done), output.Size(total))
	head := fmt.Sprintf("%3.0f %% ", math.Floor(percent))
	cells := min(v.width-len(head)-len(text), MaxBar)
	if cells < minBar {
		d.Replace(output.Clip(head+text, v.width))
		return
	}
	d.Replace(head + v.Bar(percent, Trail{}, cells) + text)
}

// Show puts a picture above the live line, in place of the previous one.
func (d *Display) Show(picture []string) {
	d.Erase()
	d.picture = picture
}

// Keep ends the live line and leaves it on the screen, with the picture.
func (d *Display) Keep() {
	if d.live {
		d.write("\n")
	}
	d.live, d.drawn, d.picture = false, 0, nil
}

// Replace shows a live line in place of the previous one. On its first call it draws the picture above it.
func (d *Display) Replace(line string) {
	if !d.live {
		for _, row := range d.picture {
			d.write(row + "\n")
		}
		d.live, d.drawn = true, len(d.picture)
	}
	d.write("\r" + line + "\x1b[K")
}

// Erase removes the live line and the picture above it. The next live line shows the picture again.
func (d *Display) Erase() {
	if d.live {
		d.write("\r")
		if d.drawn > 0 {
			d.write(fmt.Sprintf("\x1b[%dA", d.drawn))
		}
		d.write("\x1b[J")
	}
	d.live, d.drawn = false, 0
}

func (d *Display) write(text string) {
	if d.Silent || d.Err != nil {
		return
	}
	_, d.Err = io.WriteString(d.out, text)
}

// Trail is the history that the bar shows: the highest progress so far and the points
// where the job resumed.
type Trail struct {
	last     client.Progress
	furthest float64
	resumed  []float64
}

// add records the newest progress. If it is lower than before, the job resumed.
func (t *Trail) add(p client.Progress) {
	resumes := p.Phase == client.PhaseResuming && t.last.Phase != client.PhaseResuming
	if resumes || p.Percent < t.last.Percent {
		t.resumed = append(t.resumed, p.Percent)
	}
	t.last, t.furthest = p, max(t.furthest, p.Percent)
}

// View is the width and the style of the lines on a terminal.
type View struct {
	width int
	Color bool
}

const (
	minBar, MaxBar = 10, 40

	green, yellow, red, dim, plain = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"
)

// line returns the bar with percent, phase and details, at most as wide as the view.
func (v View) line(p client.Progress, t Trail) string {
	head := fmt.Sprintf("%3.0f %% ", math.Floor(p.Percent))
	text := "  " + Describe(p)
	cells := min(max(v.width-len(head)-output.Width(text), minBar), MaxBar)
	if v.width < len(head)+minBar {
		return output.Clip(head, v.width)
	}
	return head + v.Bar(p.Percent, t, cells) + output.Clip(text, v.width-len(head)-cells)
}

// Bar fills cells up to percent. Lost work that is repeated is shaded; the points where
// the job resumed stay marked.
func (v View) Bar(percent float64, t Trail, cells int) string {
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
		if v.Color && paint != painted {
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

// Describe returns the phase, the details and the remaining time.
func Describe(p client.Progress) string {
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
