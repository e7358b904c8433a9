package testcard

import (
	"math/rand/v2"
)

const (
	one   = 1 << 16 // 1.0 in fixed point
	limit = 2 * one // the largest absolute value of a latent

	channels         = 4
	cellsShort       = 18 // latent cells along the video's shorter side
	latentsPerSecond = 6
	stepsPerSecond   = 12
	minSteps         = 24
)

// latents is a video as the model sees it: a small volume of frames × height ×
// width cells of four channels. With the step and the generator it is the whole
// state of a render.
type latents struct {
	frames, height, width int
	step, steps           int
	random                *rand.PCG
	cells                 []int32 // fixed point, channel innermost

	next  []int32 // the other buffer of a step
	guide []int32 // what the prompt draws the cells to
}

// newLatents returns the noise from which f starts.
func newLatents(f video) *latents {
	l := &latents{height: cellsShort, width: cellsShort, random: f.random("noise")}
	if f.width > f.height {
		l.width = cellsShort * 16 / 9
	}
	if f.height > f.width {
		l.height = cellsShort * 16 / 9
	}
	l.frames = perSecond(f, latentsPerSecond) + 1
	l.steps = max(minSteps, perSecond(f, stepsPerSecond))
	l.cells = make([]int32, l.frames*l.height*l.width*channels)
	l.next = make([]int32, len(l.cells))
	for i := 0; i < len(l.cells); i += channels {
		noise(l.random, one, l.cells[i:i+channels])
	}
	l.guide = newGuide(f, l)
	return l
}

// perSecond returns how many cells the video has at n per second, rounded up.
func perSecond(f video, n int) int { return (f.frames*n + f.fps - 1) / f.fps }

// noise fills the channels of a cell with random values from -scale to scale.
func noise(random *rand.PCG, scale int64, cell []int32) {
	bits := random.Uint64()
	for c := range cell {
		cell[c] = int32(int64(int16(bits>>(16*c))) * scale >> 15)
	}
}

// advance does one step. Every cell moves towards its neighbours in space and time,
// towards the guide, and away from zero (which forms distinct regions). Noise that
// decreases from step to step is added.
func (l *latents) advance() {
	left := int64(l.steps - l.step)
	stir := one / 2 * left * left / int64(l.steps*l.steps)
	row, plane := l.width*channels, l.height*l.width*channels
	var fresh [channels]int32

	for i := 0; i < len(l.cells); i += channels {
		x, y, t := i/channels%l.width, i/row%l.height, i/plane
		west, east := neighbours(i, x, l.width, channels)
		north, south := neighbours(i, y, l.height, row)
		before, after := neighbours(i, t, l.frames, plane)
		noise(l.random, stir, fresh[:])
		for c := range channels {
			value := int64(l.cells[i+c])
			around := (int64(l.cells[west+c]) + int64(l.cells[east+c]) + int64(l.cells[north+c]) +
				int64(l.cells[south+c]) + 2*int64(l.cells[before+c]) + 2*int64(l.cells[after+c])) / 8
			cube := value * value / one * value / one
			value += (around-value)*3/8 + (int64(l.guide[i+c])-value)/10 + (value-cube)/8 + int64(fresh[c])
			l.next[i+c] = int32(max(-limit, min(limit, value)))
		}
	}
	l.cells, l.next = l.next, l.cells
	l.step++
}

// neighbours returns the indexes before and after i along one axis, or i itself at
// the ends of the axis.
func neighbours(i, at, size, stride int) (before, after int) {
	before, after = i, i
	if at > 0 {
		before = i - stride
	}
	if at < size-1 {
		after = i + stride
	}
	return before, after
}

// newGuide returns the picture for the prompt: for each channel, waves that travel
// across the frame, with directions, speeds and phases drawn from prompt and seed.
func newGuide(f video, l *latents) []int32 {
	const waves = 3
	type wave struct{ x, y, t, phase int64 }

	random := rand.New(f.random("guide"))
	var all [channels][waves]wave
	for c := range all {
		for w := range all[c] {
			all[c][w] = wave{
				x: random.Int64N(4001) - 2000, y: random.Int64N(4001) - 2000,
				t: 600 + random.Int64N(1800), phase: random.Int64N(one),
			}
		}
	}

	guide := make([]int32, len(l.cells))
	for i := range guide {
		c, x, y, t := i%channels, i/channels%l.width, i/channels/l.width%l.height, i/channels/l.width/l.height
		sum := int64(0)
		for _, w := range all[c] {
			sum += sine(w.phase + w.x*int64(x) + w.y*int64(y) + w.t*int64(t))
		}
		guide[i] = int32(sum * 2 / waves)
	}
	return guide
}

// sine returns the sine in fixed point; a full turn is 65536. It is approximated
// by a parabola within a few per cent, using integers only.
func sine(turn int64) int64 {
	x := turn&(one-1)*2 - one
	return -4 * x * (one - max(x, -x)) / one
}
