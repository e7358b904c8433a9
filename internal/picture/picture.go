// Package picture reads still images that strangers send. What it takes is
// bounded before anything is decoded: some bytes of a file can ask for gigabytes
// of pixels, or for hours of work.
package picture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"time"

	"golang.org/x/image/webp"
)

const (
	// MaxBytes is how large a file may be.
	MaxBytes = 20 << 20
	// MaxPixels is how many pixels an image may have, and maxSide how many on a
	// side.
	MaxPixels = 25_000_000
	maxSide   = 16_384

	// decodeTime bounds the work on one image: an honest one takes a second.
	decodeTime = 10 * time.Second
)

// ContentTypes are the types that are read.
var ContentTypes = []string{"image/jpeg", "image/png", "image/webp"}

// Info is what is known of an image.
type Info struct {
	ContentType string `json:"-"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
}

// Fault says what is wrong with an image, as the end of a sentence: "it is …".
type Fault string

func (f Fault) Error() string { return string(f) }

// errKind is told for everything that is no image of a known kind, SVG and HTML
// among it.
const errKind = Fault("it is not a JPEG, PNG or WebP image")

// kind is one file format.
type kind struct {
	contentType string
	begins      func([]byte) bool
	config      func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
}

var kinds = []kind{
	{"image/jpeg", prefixed("\xff\xd8\xff"), jpeg.DecodeConfig, jpeg.Decode},
	{"image/png", prefixed("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode},
	{"image/webp", isWebP, webp.DecodeConfig, webp.Decode},
}

func prefixed(magic string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }
}

func isWebP(data []byte) bool {
	return len(data) >= 12 && bytes.HasPrefix(data, []byte("RIFF")) && string(data[8:12]) == "WEBP"
}

// turns lets two images at a time be decoded: each may take 200 MB for that.
var turns = make(chan struct{}, 2)

// Decode decodes an image. It returns a Fault for what is not one, or is too
// large, and the cause of ctx's end.
func Decode(ctx context.Context, data []byte) (image.Image, Info, error) {
	info, format, err := inspect(data)
	if err != nil {
		return nil, info, err
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, info, context.Cause(ctx)
	}
	working, done := context.WithTimeout(ctx, decodeTime)
	defer done()
	decoded, err := format.decode(&timed{working, bytes.NewReader(data)})
	switch {
	case ctx.Err() != nil:
		return nil, info, context.Cause(ctx)
	case errors.Is(working.Err(), context.DeadlineExceeded):
		return nil, info, Fault("it takes too long to decode: save it again without progressive passes")
	case err != nil:
		return nil, info, Fault("it is damaged, or cut off")
	case decoded.Bounds().Dx() != info.Width || decoded.Bounds().Dy() != info.Height:
		return nil, info, Fault("it is damaged: its size is not the one that its head tells")
	}
	return decoded, info, nil
}

// Check decodes an image only to see that it is one.
func Check(ctx context.Context, data []byte) (Info, error) {
	_, info, err := Decode(ctx, data)
	return info, err
}

// inspect reads an image's head.
func inspect(data []byte) (Info, kind, error) {
	if len(data) > MaxBytes {
		return Info{}, kind{}, Fault(fmt.Sprintf("it has more than %d MB", MaxBytes>>20))
	}
	for _, format := range kinds {
		if !format.begins(data) {
			continue
		}
		config, err := format.config(bytes.NewReader(data))
		if err != nil {
			return Info{}, format, Fault("it is damaged, or cut off")
		}
		info := Info{format.contentType, config.Width, config.Height}
		if info.Width < 1 || info.Height < 1 || info.Width > maxSide || info.Height > maxSide || info.Width*info.Height > MaxPixels {
			return info, format, Fault(fmt.Sprintf("it has %d × %d pixels; at most %d million are taken, and %d on a side",
				info.Width, info.Height, MaxPixels/1_000_000, maxSide))
		}
		return info, format, nil
	}
	return Info{}, kind{}, errKind
}

// timed ends when its context does: a decoder that has yet to read learns of it.
type timed struct {
	ctx  context.Context
	from io.Reader
}

func (t *timed) Read(p []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	return t.from.Read(p)
}
