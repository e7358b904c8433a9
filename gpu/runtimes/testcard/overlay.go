package testcard

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"strings"
)

// layout holds the positions on a card, in pixels.
type layout struct {
	width, height, unit   float64 // unit is the shorter side
	x, y, radius          float64 // the circle
	panelTop, panelBottom float64
	margin                float64
}

func newLayout(f video) layout {
	w, h := float64(f.width), float64(f.height)
	l := layout{width: w, height: h, unit: min(w, h)}
	l.margin = math.Round(l.unit * 0.07)
	l.x, l.y, l.radius = math.Round(w/2), math.Round(h*0.39), math.Round(l.unit*0.285)
	l.panelBottom = h - l.margin
	l.panelTop = l.panelBottom - math.Round(l.unit*0.21)
	if h > w {
		l.radius = math.Round(l.unit * 0.38)
		l.panelTop = l.panelBottom - math.Round(l.unit*0.36)
	}
	return l
}

var (
	white = color.NRGBA{255, 255, 255, 255}
	faint = color.NRGBA{255, 255, 255, 46}
	soft  = color.NRGBA{255, 255, 255, 190}
	night = color.NRGBA{9, 11, 20, 255}
	dusk  = color.NRGBA{9, 11, 20, 178}

	bars = [...]color.NRGBA{
		{191, 191, 191, 255}, {191, 191, 0, 255}, {0, 191, 191, 255}, {0, 191, 0, 255},
		{191, 0, 191, 255}, {191, 0, 0, 255}, {0, 0, 191, 255},
	}
)

// overlay is the static part of a card, drawn over the moving colours.
type overlay struct {
	*image.RGBA
	layout
}

// shade paints with ink. coverage returns how much of it a pixel gets, from 0 to 1,
// at the pixel's centre.
func (o overlay) shade(x0, y0, x1, y1 float64, ink color.NRGBA, coverage func(x, y float64) float64) {
	area := image.Rect(int(x0), int(y0), int(math.Ceil(x1)), int(math.Ceil(y1))).Intersect(o.Rect)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			part := max(0, min(1, coverage(float64(x)+0.5, float64(y)+0.5)))
			alpha := uint32(part*float64(ink.A) + 0.5)
			if alpha == 0 {
				continue
			}
			pixel := o.Pix[o.PixOffset(x, y):][:4]
			for c, value := range [4]uint8{ink.R, ink.G, ink.B, 255} {
				pixel[c] = uint8((uint32(value)*alpha + uint32(pixel[c])*(255-alpha) + 127) / 255)
			}
		}
	}
}

// box fills a rectangle whose corners have the radius corner. If it is 0, the edges
// are on whole pixels.
func (o overlay) box(x0, y0, x1, y1, corner float64, ink color.NRGBA) {
	if corner == 0 {
		o.shade(x0, y0, x1, y1, ink, func(_, _ float64) float64 { return 1 })
		return
	}
	o.shade(x0, y0, x1, y1, ink, func(x, y float64) float64 {
		dx := max(x0+corner-x, x-x1+corner, 0)
		dy := max(y0+corner-y, y-y1+corner, 0)
		return corner - math.Hypot(dx, dy) + 0.5
	})
}

func (o overlay) ring(x, y, radius, thick float64, ink color.NRGBA) {
	edge := radius + thick
	o.shade(x-edge, y-edge, x+edge, y+edge, ink, func(px, py float64) float64 {
		return thick/2 + 0.5 - math.Abs(math.Hypot(px-x, py-y)-radius)
	})
}

// inDisc fills the part of the circle between two heights and two sides, given in
// radii.
func (o overlay) inDisc(x0, y0, x1, y1 float64, ink color.NRGBA) {
	at := func(middle, radii float64) float64 { return math.Round(middle + radii*o.radius) }
	o.shade(at(o.x, x0), at(o.y, y0), at(o.x, x1), at(o.y, y1), ink, func(x, y float64) float64 {
		return o.radius + 0.5 - math.Hypot(x-o.x, y-o.y)
	})
}

// newOverlay draws the card of f.
func newOverlay(f video) (overlay, error) {
	fonts, err := typefaces()
	if err != nil {
		return overlay{}, err
	}
	o := overlay{image.NewRGBA(image.Rect(0, 0, f.width, f.height)), newLayout(f)}
	o.grid()
	o.disc()

	small := faceOf(fonts.regular, o.unit*0.030)
	bold := faceOf(fonts.bold, o.unit*0.030)
	top := o.margin + o.unit*0.035
	for _, x0 := range []float64{o.margin, o.width - o.margin - o.unit*0.34} {
		o.box(x0, o.margin, x0+o.unit*0.34, o.margin+o.unit*0.052, o.unit*0.012, dusk)
	}
	write(o, bold, white, o.margin+o.unit*0.02, top, left, "REELAY")
	write(o, small, soft, o.width-o.margin-o.unit*0.02, top, right, fmt.Sprintf("%d × %d · %d fps", f.width, f.height, f.fps))
	title := faceOf(fonts.bold, o.radius*0.15)
	write(o, title, white, o.x, o.y-o.radius*0.66, centre, "TEST CARD")
	write(o, faceOf(fonts.regular, o.radius*0.115), soft, o.x, o.y+o.radius*0.81, centre, fmt.Sprintf("%.4g s", f.seconds()))

	o.panel(f)
	return o, nil
}

// grid draws the squares and the castellations along the edges.
func (o overlay) grid() {
	cell := o.unit / 12
	line := max(1, math.Round(o.unit/480))
	for x := math.Mod(o.x, cell); x < o.width; x += cell {
		o.box(math.Round(x), 0, math.Round(x)+line, o.height, 0, faint)
	}
	for y := math.Mod(o.y, cell); y < o.height; y += cell {
		o.box(0, math.Round(y), o.width, math.Round(y)+line, 0, faint)
	}
	edge := math.Round(o.unit / 48)
	for n, x := 0, math.Mod(o.x, cell)-cell; x < o.width; n, x = n+1, x+cell {
		ink := [2]color.NRGBA{white, night}[n%2]
		o.box(math.Round(x), 0, math.Round(x+cell), edge, 0, ink)
		o.box(math.Round(x), o.height-edge, math.Round(x+cell), o.height, 0, ink)
	}
	for n, y := 0, math.Mod(o.y, cell)-cell; y < o.height; n, y = n+1, y+cell {
		ink := [2]color.NRGBA{night, white}[n%2]
		o.box(0, math.Round(y), edge, math.Round(y+cell), 0, ink)
		o.box(o.width-edge, math.Round(y), o.width, math.Round(y+cell), 0, ink)
	}
}

// disc draws the circle: bars, the clock's band, the grey steps, fine lines.
func (o overlay) disc() {
	o.inDisc(-1, -1, 1, 1, dusk)
	for n, ink := range bars {
		o.inDisc(-1+2*float64(n)/7, -0.52, -1+2*float64(n+1)/7, -0.16, ink)
	}
	o.inDisc(-1, -0.16, 1, 0.22, night)
	for n := range 11 {
		grey := uint8(n * 255 / 10)
		o.inDisc(-1+2*float64(n)/11, 0.22, -1+2*float64(n+1)/11, 0.42, color.NRGBA{grey, grey, grey, 255})
	}
	o.inDisc(-1, 0.42, 1, 0.60, night)
	for n, x := 0, -0.9; x < 0.9; n++ {
		thick := 0.012 + 0.002*float64(n%30)
		o.inDisc(x, 0.42, x+thick/2, 0.60, soft)
		x += thick * 1.4
	}
	o.ring(o.x, o.y, o.radius, max(2, o.unit/160), white)
	o.ring(o.x, o.y, o.radius*1.08, o.radius*0.05, dusk)
}

// panel draws the prompt, as large as fits, and leaves room for the frame count.
func (o overlay) panel(f video) {
	fonts, _ := typefaces()
	pad := o.unit * 0.028
	o.box(o.margin, o.panelTop, o.width-o.margin, o.panelBottom, o.unit*0.018, dusk)
	footer := faceOf(fonts.regular, o.unit*0.030)
	write(o, footer, soft, o.width-o.margin-pad, o.panelBottom-pad*0.8, right, fmt.Sprintf("seed %d", f.seed))

	text := legible(fonts.bold, f.prompt)
	room := o.panelBottom - o.panelTop - pad*2.4 - o.unit*0.030
	for _, scale := range []float64{0.060, 0.050, 0.042, 0.036, 0.031} {
		size := o.unit * scale
		face := faceOf(fonts.bold, size)
		lines, whole := wrap(face, text, int(o.width-2*o.margin-2*pad), max(1, int(room/(size*1.22))))
		if !whole && scale > 0.031 {
			continue
		}
		for n, line := range lines {
			write(o, face, white, o.margin+pad, o.panelTop+pad*0.7+size*(0.9+1.22*float64(n)), left, strings.TrimSpace(line))
		}
		return
	}
}
