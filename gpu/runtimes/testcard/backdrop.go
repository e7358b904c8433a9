package testcard

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"io"
	"os"

	"github.com/reelay/reelay/internal/picture"
)

// backdrop is a picture behind the card, as large as a frame. It is computed with
// integers only, so that it is the same on every machine.
type backdrop struct {
	sum    [sha256.Size]byte // of the file
	pixels []byte            // RGB
	width  int
}

// readBackdrop reads a picture and scales it to the size of a frame.
func readBackdrop(ctx context.Context, path string, width, height int) (*backdrop, error) {
	if path == "" {
		return nil, errors.New("the job has no such file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, picture.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	decoded, _, err := picture.Decode(ctx, data)
	if err != nil {
		return nil, err
	}
	return &backdrop{sum: sha256.Sum256(data), pixels: cover(decoded, width, height), width: width}, nil
}

// cover scales the middle of a picture so that it fills a frame.
func cover(from image.Image, width, height int) []byte {
	area := from.Bounds()
	if area.Dx()*height > area.Dy()*width {
		area = inset(area, (area.Dx()-max(1, area.Dy()*width/height))/2, 0)
	} else {
		area = inset(area, 0, (area.Dy()-max(1, area.Dx()*height/width))/2)
	}
	pixels := make([]byte, 0, width*height*3)
	for y := range height {
		top, bottom := span(area.Min.Y, area.Dy(), y, height)
		for x := range width {
			left, right := span(area.Min.X, area.Dx(), x, width)
			r, g, b := average(from, image.Rect(left, top, right, bottom))
			pixels = append(pixels, r, g, b)
		}
	}
	return pixels
}

func inset(area image.Rectangle, x, y int) image.Rectangle {
	return image.Rect(area.Min.X+x, area.Min.Y+y, area.Max.X-x, area.Max.Y-y)
}

// span returns the part of the picture's side that one pixel of the frame shows,
// which is at least one pixel of the picture.
func span(from, length, at, of int) (begin, end int) {
	begin, end = from+at*length/of, from+(at+1)*length/of
	return begin, max(end, begin+1)
}

// average returns the mean colour of an area, over black where it is transparent.
func average(from image.Image, area image.Rectangle) (r, g, b byte) {
	var sum [3]uint64
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			red, green, blue, _ := from.At(x, y).RGBA()
			sum[0], sum[1], sum[2] = sum[0]+uint64(red), sum[1]+uint64(green), sum[2]+uint64(blue)
		}
	}
	n := uint64(area.Dx()*area.Dy()) * 257
	return byte(sum[0] / n), byte(sum[1] / n), byte(sum[2] / n)
}

// row returns a line of the backdrop, or nil if there is no backdrop.
func (b *backdrop) row(y int) []byte {
	if b == nil {
		return nil
	}
	return b.pixels[y*b.width*3:][:b.width*3]
}

// pictureShare returns the share of the picture in a frame, in 1/256: nearly all at
// the beginning of the video, and a third at its end.
func (f video) pictureShare(frame int) int32 {
	return int32(240 - 155*frame/f.frames)
}
