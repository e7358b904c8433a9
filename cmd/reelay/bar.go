package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/reelay/reelay/client"
)

// trail is what the bar remembers of a job: how far it had been, and where it
// was taken up again.
type trail struct {
	last     client.Progress
	furthest float64
	resumed  []float64
}

// add takes the newest progress. Progress that goes back is a resume, also if
// nobody said so.
func (t *trail) add(p client.Progress) {
	resumes := p.Phase == client.PhaseResuming && t.last.Phase != client.PhaseResuming
	if resumes || p.Percent < t.last.Percent {
		t.resumed = append(t.resumed, p.Percent)
	}
	t.last, t.furthest = p, max(t.furthest, p.Percent)
}

// view is how a terminal wants its lines.
type view struct {
	width int
	color bool
}

const (
	minBar, maxBar = 10, 40

	green, yellow, red, dim, plain = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"
)

// line is the bar with percent, phase and details, no wider than the view.
func (v view) line(p client.Progress, t trail) string {
	head := fmt.Sprintf("%3.0f %% ", math.Floor(p.Percent))
	text := "  " + describe(p)
	cells := min(max(v.width-len(head)-runes(text), minBar), maxBar)
	if v.width < len(head)+minBar {
		return clip(head, v.width)
	}
	return head + v.bar(p.Percent, t, cells) + clip(text, v.width-len(head)-cells)
}

// bar fills cells up to percent. Work that was lost and is done again is shaded;
// the places where the job was taken up again stay marked.
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

// describe tells phase, details and the time that is left.
func describe(p client.Progress) string {
	parts := []string{strings.ReplaceAll(string(p.Phase), "_", " ")}
	switch {
	case p.Phase == client.PhaseDone:
		return parts[0]
	case p.Message != nil && *p.Message != "":
		parts = append(parts, clean(*p.Message))
	case p.Frame != nil && p.TotalFrames != nil:
		parts = append(parts, fmt.Sprintf("frame %d of %d", *p.Frame, *p.TotalFrames))
	}
	if p.EtaSeconds != nil && *p.EtaSeconds >= 1 {
		parts = append(parts, formatSeconds(*p.EtaSeconds)+" left")
	}
	return strings.Join(parts, " · ")
}

// formatSeconds writes a length of time as people do: 0:07, 12:30, 1:02:03.
func formatSeconds(seconds float64) string {
	d := time.Duration(math.Round(min(max(seconds, 0), 1e8))) * time.Second
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if h > 0 {
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// formatSize writes a number of bytes as people do.
func formatSize(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// clean makes text safe for a terminal: nothing in it can move the cursor.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, text)
}

func runes(s string) int { return len([]rune(s)) }

// clip shortens plain text to a width.
func clip(text string, width int) string {
	if runes(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}
