package quality

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// finding is a defect with the times of two frames that show it.
type finding struct {
	Defect
	evidence []float64
}

// judge compares what was measured with what was expected. It reports the first
// defect, the fundamental ones first.
func (m *measured) judge(e Expect) *Report {
	report := &Report{Numbers: m.total(e.Thresholds)}
	n := &report.Numbers
	for _, check := range []func(Expect, *Numbers) *finding{
		m.decodes, m.complete, m.rate, m.length, m.lit, m.coloured, m.sane, m.moving, m.hasSound,
	} {
		if found := check(e, n); found != nil {
			report.Defect, report.Evidence = &found.Defect, found.evidence
			return report
		}
	}
	return report
}

func (m *measured) total(t Thresholds) Numbers {
	n := m.numbers()
	n.Frames, n.DecodeErrors = len(m.frames), m.problems.lines
	if n.Frames == 0 {
		return n
	}
	first, last := m.frames[0].at, m.frames[n.Frames-1].at
	n.Seconds = last - first + m.step()
	if n.Frames > 1 && last > first {
		n.FPS = float64(n.Frames-1) / (last - first)
	}
	black := 0
	for _, a := range m.areas {
		n.Brightness += a.brightness() / float64(n.Frames)
		if a.black(t) {
			black++
		}
	}
	n.BlackShare = float64(black) / float64(n.Frames)
	n.FlatShare, _ = m.flattest(t)
	from, to := m.stillest(t)
	n.FrozenSeconds = m.frames[to].at - m.frames[from].at
	if m.audible != nil {
		n.AudioSeconds, n.AudioStart, n.LoudestDB = m.audible.seconds, m.audible.start-m.container.start, decibels(m.audible.loudest)
	}
	return n
}

// step is how long the last frame lasts: what its container says, or as long as the
// others on average.
func (m *measured) step() float64 {
	last := m.frames[len(m.frames)-1]
	if len(m.frames) > 1 {
		return (last.at - m.frames[0].at) / float64(len(m.frames)-1)
	}
	return cmp.Or(last.lasts, m.container.seconds)
}

// around returns the times of the frames at a third and two thirds of a range.
func (m *measured) around(from, to int) []float64 {
	return []float64{m.frames[from+(to-from)/3].at, m.frames[from+(to-from)*2/3].at}
}

func found(code Code, evidence []float64, format string, args ...any) *finding {
	return &finding{Defect{code, fmt.Sprintf(format, args...)}, evidence}
}

func (m *measured) decodes(_ Expect, n *Numbers) *finding {
	if n.Frames > 0 {
		return nil
	}
	said := m.problems.first()
	if said == "" {
		said = "ffmpeg found none"
	}
	return found(Undecodable, nil, "The video has no frames that decode: %s.", said)
}

// complete looks for a file that ends early, and for errors of the decoder.
func (m *measured) complete(_ Expect, n *Numbers) *finding {
	last := n.Frames - 1
	end := m.around(max(0, last-2), last)
	short := m.container.frames > 0 && n.Frames < m.container.frames && n.DecodeErrors > 0
	early := n.HeaderSeconds > 0 && n.Seconds < n.HeaderSeconds-max(0.25, 0.05*n.HeaderSeconds, 2*m.step())
	said := strings.ToLower(m.problems.text.String())
	switch {
	case m.cut, short, early, strings.Contains(said, "partial file"), strings.Contains(said, "ended prematurely"):
		return found(Truncated, end, "The file ends early: %d frames or %.2f s decode; its header says %s.", n.Frames, n.Seconds, m.promised())
	case n.DecodeErrors > 0 || !m.ok:
		return found(CorruptFrames, m.around(0, last), "ffmpeg reported %d errors while it decoded %d frames, the first: %s.", n.DecodeErrors,
			n.Frames, m.problems.first())
	}
	return nil
}

func (m *measured) promised() string {
	if m.container.frames > 0 {
		return fmt.Sprintf("%d frames and %.2f s", m.container.frames, m.container.seconds)
	}
	return fmt.Sprintf("%.2f s", m.container.seconds)
}

// rate compares the average frame rate, within 1 % and a millisecond, to which WebM
// rounds times.
func (m *measured) rate(e Expect, n *Numbers) *finding {
	if e.FPS == 0 || n.Frames < 2 {
		return nil
	}
	span := n.Seconds - m.step()
	if math.Abs(n.FPS-e.FPS) <= e.FPS*(0.01+0.001/max(span, 0.001)) {
		return nil
	}
	return found(WrongFPS, m.around(0, n.Frames-1), "The video has %.3g frames per second; %.4g were asked for.", n.FPS, e.FPS)
}

func (m *measured) length(e Expect, n *Numbers) *finding {
	want := e.DurationSeconds
	if want == 0 {
		return nil
	}
	step := m.step()
	if math.Abs(n.Seconds-want) <= max(0.25, 0.05*want, step, min(4*step, 0.2*want)) {
		return nil
	}
	return found(WrongDuration, m.around(0, n.Frames-1), "The video lasts %.2f s; %.2f s were asked for.", n.Seconds, want)
}

// lit looks for a video that is black nearly throughout.
func (m *measured) lit(e Expect, n *Numbers) *finding {
	if e.AllowDark || n.BlackShare < e.Thresholds.BlackShare {
		return nil
	}
	return found(Black, m.around(0, n.Frames-1), "%.0f %% of the frames are black: the mean brightness is %.1f of 255.", 100*n.BlackShare,
		n.Brightness)
}

// coloured looks for a video of one colour.
func (m *measured) coloured(e Expect, n *Numbers) *finding {
	share, i := m.flattest(e.Thresholds)
	if share < e.Thresholds.FlatShare || e.AllowDark && m.areas[i].black(e.Thresholds) {
		return nil
	}
	return found(SingleColour, m.around(0, n.Frames-1), "%.0f %% of the frames have the single colour %s.", 100*share, m.areas[i].colour())
}

// moving looks for a picture that stands still.
func (m *measured) moving(e Expect, n *Numbers) *finding {
	limit := max(min(1, 0.8*n.Seconds), min(e.Thresholds.FrozenSeconds, 0.3*n.Seconds))
	if e.AllowStill || n.FrozenSeconds < limit-m.step() {
		return nil
	}
	from, to := m.stillest(e.Thresholds)
	if from == to {
		return nil // nothing repeats: each frame of a low rate is as long as the limit
	}
	return found(Frozen, m.around(from, to), "The same picture is shown for %.2f s, from %.2f s to %.2f s, of %.2f s.",
		n.FrozenSeconds, m.frames[from].at, m.frames[to].at, n.Seconds)
}

// flatPeak is how much brighter than the mean a cell of a frame of one colour may be: a
// few lights make a picture of a night.
const flatPeak = 16

func (a area) flat(t Thresholds) bool {
	return a.uneven <= t.FlatDeviation && a.deviation <= 3*t.FlatDeviation && a.peak <= flatPeak
}

func (a area) black(t Thresholds) bool {
	return a.flat(t) && a.brightness() <= t.BlackBrightness
}

func (a area) colour() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(a.mean[0])), int(math.Round(a.mean[1])), int(math.Round(a.mean[2])))
}

// sameColour is how far the mean colours of two frames of one colour may differ.
const sameColour = 6

// flattest returns the share of frames that are flat and have the colour of the flat
// frame in the middle of all flat frames, and that frame.
func (m *measured) flattest(t Thresholds) (float64, int) {
	var flat []int
	for i, a := range m.areas {
		if a.flat(t) {
			flat = append(flat, i)
		}
	}
	if len(flat) == 0 {
		return 0, 0
	}
	middle := flat[len(flat)/2]
	others := slices.DeleteFunc(flat, func(i int) bool { return colourGap(m.areas[i], m.areas[middle]) > sameColour })
	return float64(len(others)) / float64(len(m.areas)), middle
}
