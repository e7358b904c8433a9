package testcard

import "math"

const quarterTurn = 1 << 14 // of 65536

// dial is the moving part of the circle: a hand that sweeps once a second, and a
// ring around it that shows the position in the video.
type dial struct {
	left, top, size int
	points          []point
}

// point is a pixel of the dial's square.
type point struct {
	angle uint16 // clockwise from the top
	edge  uint16 // the width of this pixel as an angle
	disc  uint8  // the share of the pixel in the circle
	ring  uint8  // the share of the pixel in the ring
}

func newDial(l layout, width, height int) dial {
	reach := l.radius * 1.12
	d := dial{left: int(l.x - reach), top: int(l.y - reach), size: int(2 * reach)}
	d.left, d.top = max(0, d.left), max(0, d.top)
	d.size = min(d.size, width-d.left, height-d.top)
	for y := range d.size {
		for x := range d.size {
			dx, dy := float64(d.left+x)+0.5-l.x, float64(d.top+y)+0.5-l.y
			distance := math.Hypot(dx, dy)
			turn := math.Atan2(dx, -dy) / (2 * math.Pi) * 65536
			d.points = append(d.points, point{
				angle: uint16(int(math.Floor(turn)) & 65535),
				edge:  uint16(min(quarterTurn, 65536/(2*math.Pi*max(1, distance)))),
				disc:  coverage(l.radius*0.985 - distance),
				ring:  coverage(l.radius*0.025 - math.Abs(distance-l.radius*1.08)),
			})
		}
	}
	return d
}

func coverage(inside float64) uint8 { return uint8(255 * max(0, min(1, inside+0.5))) }

// paint draws the dial of a frame over the pixels.
func (d *dial) paint(pixels []byte, frame int, f video, accent [3]uint32) {
	hand := uint16(frame % f.fps * 65536 / f.fps)
	over := uint32((frame + 1) * 65536 / f.frames)
	for y := range d.size {
		row := pixels[((d.top+y)*f.width+d.left)*3:][:d.size*3]
		for x, p := range d.points[y*d.size:][:d.size] {
			pixel := row[x*3:][:3]
			if p.ring > 0 && uint32(p.angle) < over {
				blend(pixel, accent, uint32(p.ring))
			}
			if p.disc > 0 {
				blend(pixel, [3]uint32{255, 255, 255}, p.glow(hand)*uint32(p.disc)/255)
			}
		}
	}
}

// glow is how bright the hand and the trail behind it are at a point.
func (p point) glow(hand uint16) uint32 {
	const bright = 150

	behind := hand - p.angle
	ahead := p.angle - hand
	switch {
	case behind < quarterTurn:
		if behind < 3*p.edge {
			return bright
		}
		rest := uint32(quarterTurn-behind) * 256 / quarterTurn
		return rest * rest * bright / 2 >> 16
	case ahead < p.edge:
		return bright * uint32(p.edge-ahead) / uint32(p.edge)
	}
	return 0
}

func blend(pixel []byte, ink [3]uint32, alpha uint32) {
	for i := range pixel {
		pixel[i] = byte((uint32(pixel[i])*(255-alpha) + ink[i]*alpha) / 255)
	}
}
