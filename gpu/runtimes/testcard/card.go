package testcard

import (
	"math"
	"math/rand/v2"
)

// card paints the frames of one video. It reuses the pixels of one frame, so that a
// frame costs no allocation.
type card struct {
	video   video
	state   *latents
	overlay overlay
	colours [channels][3]int32 // what a channel adds to red, green and blue
	base    [3]int32
	accent  [3]uint32

	pixels []byte // RGB
	grid   []int32
	row    []int32
	xTaps  []taps
	yTaps  []taps

	dial  dial
	clock *digits
	count *digits
	text  []byte
}

// taps are four neighbours on an axis and their weights, which add up to 256.
type taps struct {
	at     [4]int
	weight [4]int32
}

func newCard(f video, state *latents) (*card, error) {
	over, err := newOverlay(f)
	if err != nil {
		return nil, err
	}
	fonts, err := typefaces()
	if err != nil {
		return nil, err
	}
	c := &card{
		video: f, state: state, overlay: over,
		pixels: make([]byte, f.width*f.height*3),
		grid:   make([]int32, state.width*state.height*3),
		row:    make([]int32, state.width*3),
		dial:   newDial(over.layout, f.width, f.height),
		clock:  newDigits(fonts.mono, over.radius*0.26),
		count:  newDigits(fonts.mono, over.unit*0.032),
		text:   make([]byte, 0, 32),
	}
	for x := range f.width {
		c.xTaps = append(c.xTaps, spline((2*x+1)*state.width*128/f.width-128, state.width, 3))
	}
	for y := range f.height {
		c.yTaps = append(c.yTaps, spline((2*y+1)*state.height*128/f.height-128, state.height, state.width*3))
	}
	c.choosePalette(rand.New(f.random("palette")))
	return c, nil
}

// choosePalette derives a hue and its neighbours from prompt and seed.
func (c *card) choosePalette(random *rand.Rand) {
	hue := random.Int64N(one)
	spread := one/5 + random.Int64N(one/6)
	if random.IntN(2) == 0 {
		spread = -spread
	}
	first, second, third := tone(hue), tone(hue+spread), tone(hue+2*spread)
	for i := range 3 {
		c.base[i] = 18 + (first[i]+second[i]+third[i])/4
		c.colours[0][i] = (second[i] - first[i]) * 2 / 5
		c.colours[1][i] = (third[i] - second[i]) * 2 / 5
		c.colours[2][i] = first[i]/4 - 30
		c.colours[3][i] = 22
		c.accent[i] = uint32(155 + second[i]*100/255)
	}
}

// tone returns a saturated colour. A full circle of hues is 65536.
func tone(hue int64) (rgb [3]int32) {
	for i := range rgb {
		rgb[i] = int32(120 + sine(hue+int64(i)*one/3)*105/one)
	}
	return rgb
}

// spline returns the cubic B-spline taps of a position in 1/256 cells.
func spline(position, size, stride int) (t taps) {
	cell, part := position>>8, int64(position&255)
	rest := 256 - part
	t.weight[0] = int32(rest * rest * rest / 6 >> 16)
	t.weight[2] = int32((256*256*256 + 3*256*256*part + 3*256*part*part - 3*part*part*part) / 6 >> 16)
	t.weight[3] = int32(part * part * part / 6 >> 16)
	t.weight[1] = 256 - t.weight[0] - t.weight[2] - t.weight[3]
	for i := range t.at {
		t.at[i] = max(0, min(size-1, cell-1+i)) * stride
	}
	return t
}

// paint paints a frame. The pixels are valid until the next call.
func (c *card) paint(frame int) []byte {
	c.mix(frame)
	for y := range c.video.height {
		c.paintRow(frame, y)
	}
	c.dial.paint(c.pixels, frame, c.video, c.accent)
	c.paintText(frame)
	return c.pixels
}

// mix turns the latents at the frame's time into a small picture whose values are
// colours times 128.
func (c *card) mix(frame int) {
	plane := c.state.width * c.state.height * channels
	t := spline(frame*latentsPerSecond*256/c.video.fps, c.state.frames, plane)
	for cell := range plane / channels {
		var rgb [3]int32
		for ch := range channels {
			value := int64(0)
			for i, at := range t.at {
				value += int64(t.weight[i]) * int64(c.state.cells[at+cell*channels+ch])
			}
			for i := range rgb {
				rgb[i] += int32(value * int64(c.colours[ch][i]) >> 17)
			}
		}
		for i := range rgb {
			c.grid[cell*3+i] = rgb[i] + c.base[i]<<7
		}
	}
}

// paintRow enlarges the small picture smoothly and lays the card over it.
func (c *card) paintRow(frame, y int) {
	t := &c.yTaps[y]
	for i := range c.row {
		c.row[i] = (t.weight[0]*c.grid[t.at[0]+i] + t.weight[1]*c.grid[t.at[1]+i] +
			t.weight[2]*c.grid[t.at[2]+i] + t.weight[3]*c.grid[t.at[3]+i]) >> 8
	}
	to := c.pixels[y*c.video.width*3:][:c.video.width*3]
	over := c.overlay.Pix[y*c.overlay.Stride:][:c.video.width*4]
	behind, share := c.video.picture.row(y), c.video.pictureShare(frame)
	for x := range c.xTaps {
		ink := over[x*4:][:4]
		pixel := to[x*3:][:3]
		if ink[3] == 255 {
			copy(pixel, ink)
			continue
		}
		t := &c.xTaps[x]
		a, b, d, e := c.row[t.at[0]:][:3], c.row[t.at[1]:][:3], c.row[t.at[2]:][:3], c.row[t.at[3]:][:3]
		through := 255 - uint32(ink[3])
		for i := range 3 {
			value := (t.weight[0]*a[i] + t.weight[1]*b[i] + t.weight[2]*d[i] + t.weight[3]*e[i]) >> 15
			if behind != nil {
				value += (int32(behind[x*3+i]) - value) * share >> 8
			}
			pixel[i] = ink[i] + byte(uint32(max(0, min(255, value)))*through/255)
		}
	}
}

// paintText draws the timecode and the count of frames.
func (c *card) paintText(frame int) {
	stride := c.video.width * 3
	second := frame / c.video.fps
	c.text = c.text[:0]
	for i, n := range [4]int{0, second / 60, second % 60, frame % c.video.fps} {
		if i > 0 {
			c.text = append(c.text, ':')
		}
		c.text = appendPadded(c.text, n, 2)
	}
	l := &c.overlay.layout
	middle := int(l.y + l.radius*0.03)
	c.clock.paint(c.pixels, stride, int(l.x)-len(c.text)*c.clock.width/2, middle-c.clock.height*6/10, c.text)

	c.text = appendPadded(c.text[:0], frame+1, 4)
	c.text = append(c.text, " / "...)
	c.text = appendPadded(c.text, c.video.frames, 4)
	pad := l.unit * 0.028
	c.count.paint(c.pixels, stride, int(l.margin+pad), int(l.panelBottom-pad*0.8)-c.count.height*86/100, c.text)
}

func appendPadded(text []byte, n, width int) []byte {
	for unit := int(math.Pow10(width - 1)); unit > 0; unit /= 10 {
		text = append(text, byte('0'+n/unit%10))
	}
	return text
}
