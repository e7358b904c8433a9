package testcard

import (
	"fmt"
	"image"
	"image/color"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// typefaces are parsed once per process.
var typefaces = sync.OnceValues(func() (t struct{ regular, bold, mono *sfnt.Font }, err error) {
	for _, f := range []struct {
		into **sfnt.Font
		data []byte
	}{{&t.regular, goregular.TTF}, {&t.bold, gobold.TTF}, {&t.mono, gomonobold.TTF}} {
		if *f.into, err = opentype.Parse(f.data); err != nil {
			return t, fmt.Errorf("parse a font: %w", err)
		}
	}
	return t, nil
})

// faceOf returns a font at a size in pixels.
func faceOf(typeface *sfnt.Font, pixels float64) font.Face {
	face, err := opentype.NewFace(typeface, &opentype.FaceOptions{Size: pixels, DPI: 72})
	if err != nil {
		panic(err) // unreachable: the options are constant and valid
	}
	return face
}

// legible replaces each character that the font lacks (emoji, some scripts) by a
// box, and drops invisible ones: controls, joiners, lone accents. White space
// becomes single spaces.
func legible(typeface *sfnt.Font, text string) string {
	const most = 600 // more characters never fit

	var buffer sfnt.Buffer
	out := make([]rune, 0, most)
	for _, r := range text {
		if len(out) == most {
			break
		}
		switch glyph, err := typeface.GlyphIndex(&buffer, r); {
		case unicode.IsSpace(r):
			out = append(out, ' ')
		case unicode.In(r, unicode.C, unicode.M):
		case err != nil || glyph == 0:
			out = append(out, '□')
		default:
			out = append(out, r)
		}
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// wrap breaks text into lines of at most width pixels, and breaks words that are
// wider. It cuts the text after most lines and marks the cut with an ellipsis;
// whole is then false.
func wrap(face font.Face, text string, width, most int) (lines []string, whole bool) {
	fits := func(s string) bool { return font.MeasureString(face, s).Ceil() <= width }
	line := ""
	for _, word := range strings.Fields(text) {
		for word != "" {
			longer := strings.TrimSpace(line + " " + word)
			if fits(longer) {
				line, word = longer, ""
				continue
			}
			if line == "" {
				head := []rune(word)
				for len(head) > 1 && !fits(string(head)) {
					head = head[:len(head)-1]
				}
				line, word = string(head), word[len(string(head)):]
			}
			if len(lines) == most-1 {
				return append(lines, ellipsis(line, fits)), false
			}
			lines, line = append(lines, line), ""
		}
	}
	return append(lines, line), true
}

func ellipsis(line string, fits func(string) bool) string {
	cut := []rune(line)
	for len(cut) > 0 && !fits(string(cut)+"…") {
		cut = cut[:len(cut)-1]
	}
	return strings.TrimSpace(string(cut)) + "…"
}

// anchor is the position of a text relative to its x.
type anchor int

const (
	left anchor = iota
	centre
	right
)

// write draws text with its baseline at y.
func write(on draw.Image, face font.Face, ink color.Color, x, y float64, at anchor, text string) {
	width := font.MeasureString(face, text)
	origin := fixed.Int26_6(x*64) - width*fixed.Int26_6(at)/2
	drawer := font.Drawer{Dst: on, Src: image.NewUniform(ink), Face: face,
		Dot: fixed.Point26_6{X: origin, Y: fixed.Int26_6(y * 64)}}
	drawer.DrawString(text)
}

// digits are the pre-drawn glyphs of a clock, all of the same width.
type digits struct {
	masks         [128]*image.Alpha
	width, height int
}

func newDigits(typeface *sfnt.Font, pixels float64) *digits {
	face := faceOf(typeface, pixels)
	advance := font.MeasureString(face, "0").Ceil()
	d := &digits{width: advance, height: int(pixels)}
	for _, r := range "0123456789:/ " {
		mask := image.NewAlpha(image.Rect(0, 0, d.width, d.height))
		write(mask, face, color.Opaque, 0, pixels*0.86, left, string(r))
		d.masks[r] = mask
	}
	return d
}

// paint draws text in white on RGB pixels, its top left corner at x, y.
func (d *digits) paint(pixels []byte, stride, x, y int, text []byte) {
	for _, r := range text {
		mask := d.masks[r]
		for row := range d.height {
			to := (y+row)*stride + x*3
			for _, alpha := range mask.Pix[row*mask.Stride : row*mask.Stride+d.width] {
				for c := to; alpha > 0 && c < to+3; c++ {
					pixels[c] += byte(uint32(255-pixels[c]) * uint32(alpha) / 255)
				}
				to += 3
			}
		}
		x += d.width
	}
}
