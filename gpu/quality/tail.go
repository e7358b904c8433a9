package quality

import (
	"math"
	"slices"
)

const (
	// noisy is the correlation of neighbouring pixels below which a picture is noise.
	// loud is the least deviation of noise.
	noisy = 0.3
	loud  = 20
	// unlike is the part of the correlation before that noise has at most: a picture of
	// fine detail, such as small text, is near noisy in all frames.
	unlike = 0.5
	// A broken end has at least shortTail seconds and shortFrames frames; a black or
	// white one, as good videos also end, blackTail seconds and a share of blackPart.
	shortTail   = 0.15
	shortFrames = 3
	blackTail   = 0.4
	blackPart   = 0.08
	// abrupt is the part of its contrast that the picture loses from one frame to the
	// next at a break. A fade loses less.
	abrupt = 0.6
)

// sane looks for frames that turn to one colour or to noise at some time and stay so
// until the end, as after a NaN in a model.
func (m *measured) sane(e Expect, n *Numbers) *finding {
	if from := m.flatTail(e.Thresholds); from > 0 && m.breaks(from) {
		last := m.areas[n.Frames-1]
		lasts := n.Seconds - (m.frames[from].at - m.frames[0].at)
		brightness := last.brightness()
		plain := brightness <= e.Thresholds.BlackBrightness || brightness >= 255-e.Thresholds.BlackBrightness
		long := lasts >= shortTail && n.Frames-from >= shortFrames
		if plain {
			long = lasts >= max(blackTail, blackPart*n.Seconds) && !(e.AllowDark && last.black(e.Thresholds))
		}
		if long {
			return found(CorruptFrames, m.border(from), "From %.2f s on all %d frames have the single colour %s; the frame before has a picture.",
				m.frames[from].at, n.Frames-from, last.colour())
		}
	}
	from := m.noiseTail(point.uncorrelated)
	if from > 0 && m.smoothness(from, n.Frames) > unlike*m.smoothness(0, from) {
		from = 0
	}
	if from = max(from, m.noiseTail(point.restless)); from > 0 {
		return found(CorruptFrames, m.border(from),
			"From %.2f s on all %d frames are noise: neighbouring pixels have a correlation of %.2f, before %.2f.",
			m.frames[from].at, n.Frames-from, m.smoothness(from, n.Frames), m.smoothness(0, from))
	}
	return nil
}

// border returns the times of the frame before a break and of one after it.
func (m *measured) border(from int) []float64 {
	return []float64{m.frames[from-1].at, m.frames[(from+len(m.frames))/2].at}
}

// flatTail returns the first of the frames of the same single colour at the end.
func (m *measured) flatTail(t Thresholds) int {
	last := len(m.areas) - 1
	from := len(m.areas)
	for from > 0 && m.areas[from-1].flat(t) && colourGap(m.areas[from-1], m.areas[last]) <= sameColour {
		from--
	}
	if from > last {
		return 0
	}
	return from
}

// breaks reports whether the picture before the frame broke off, so that it did not
// fade. An encoder may spread a break over three frames.
func (m *measured) breaks(at int) bool {
	usual, loss := 0.0, 0.0
	for i := at; i > 0 && m.frames[at].at-m.frames[i-1].at <= 0.5; i-- {
		usual = max(usual, m.areas[i-1].deviation)
		if at-i < 3 {
			loss = max(loss, m.areas[i-1].deviation-m.areas[i].deviation)
		}
	}
	return loss >= abrupt*usual
}

// uncorrelated reports whether the pixels of a picture are independent of their
// neighbours.
func (p point) uncorrelated() bool { return p.deviation >= loud && p.smooth < noisy }

// restless reports whether a picture has nothing to do with the one before.
func (p point) restless() bool {
	return p.deviation >= loud && p.changed > p.deviation
}

// noiseTail returns the first of the frames of noise at the end of a video that was
// hardly any before, or 0.
func (m *measured) noiseTail(noise func(point) bool) int {
	n := len(m.points)
	from := n
	for from > 0 && noise(m.points[from-1]) {
		from--
	}
	if from < shortFrames || n-from < shortFrames || m.frames[n-1].at-m.frames[from].at < shortTail-m.step() {
		return 0
	}
	before := 0
	for _, p := range m.points[:from] {
		if noise(p) {
			before++
		}
	}
	if 5*before > from {
		return 0
	}
	return from
}

// smoothness is the median correlation of neighbouring pixels.
func (m *measured) smoothness(from, to int) float64 {
	var all []float64
	for _, p := range m.points[from:to] {
		all = append(all, p.smooth)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return math.NaN()
	}
	return all[len(all)/2]
}
