// Package picture decodes still images from untrusted callers. It checks limits before
// it decodes anything, since a few bytes can demand gigabytes of pixels or hours of work.
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

	"github.com/reelay/reelay/internal/media"
	"golang.org/x/image/webp"
)

const (
	// MaxBytes is the maximum size of a file.
	MaxBytes = 20 << 20
	// MaxPixels is the maximum number of pixels of an image, and maxSide that of a side.
	MaxPixels = 25_000_000
	maxSide   = 16_384

	// decodeTime bounds the work on one image. A normal image takes a second.
	decodeTime = 10 * time.Second
)

// ContentTypes are the supported types.
var ContentTypes = []string{"image/jpeg", "image/png", "image/webp"}

// Info describes an image as it is shown.
type Info struct {
	ContentType string `json:"-"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
}

// Fault says what is wrong with an image. It is the end of a sentence, such as "it is …".
type Fault string

func (f Fault) Error() string { return string(f) }

// errKind is returned for everything else that has no name.
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

// turns limits concurrent decoding to two images, since each can take 200 MB.
var turns = make(chan struct{}, 2)

// Decode decodes an image and turns it upright, as its EXIF data says. Info has the size of the
// upright image. It returns a Fault if data is not a supported image, is damaged
// or exceeds a limit. If ctx ends, it returns the cause.
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
		return nil, info, Fault("it is damaged or truncated")
	case decoded.Bounds().Dx() != info.Width || decoded.Bounds().Dy() != info.Height:
		return nil, info, Fault("it is damaged: its size differs from the one in its header")
	}
	turn := orientation(info.ContentType, data)
	if turn >= 5 {
		info.Width, info.Height = info.Height, info.Width
	}
	return upright(decoded, turn), info, nil
}

// Check decodes an image to validate it. It returns the errors of Decode.
func Check(ctx context.Context, data []byte) (Info, error) {
	_, info, err := Decode(ctx, data)
	return info, err
}

// animated reports whether a WebP image has the flag of an animation in its extended header
// (RFC 9649, section 2.7).
func animated(data []byte) bool {
	return len(data) > 20 && string(data[12:16]) == "VP8X" && data[20]&0x02 != 0
}

// inspect reads an image's header and checks the limits.
func inspect(data []byte) (Info, kind, error) {
	if len(data) > MaxBytes {
		return Info{}, kind{}, Fault(fmt.Sprintf("it is larger than %d MB", MaxBytes>>20))
	}
	for _, format := range kinds {
		if !format.begins(data) {
			continue
		}
		if format.contentType == "image/webp" && animated(data) {
			return Info{}, format, Fault("it is an animated WebP: save one of its pictures as PNG, JPEG or WebP")
		}
		config, err := format.config(bytes.NewReader(data))
		if err != nil {
			return Info{}, format, Fault("it is damaged or truncated")
		}
		info := Info{format.contentType, config.Width, config.Height}
		if info.Width < 1 || info.Height < 1 || info.Width > maxSide || info.Height > maxSide || info.Width*info.Height > MaxPixels {
			return info, format, Fault(fmt.Sprintf("it has %d × %d pixels; the limit is %d million pixels, and %d on each side",
				info.Width, info.Height, MaxPixels/1_000_000, maxSide))
		}
		return info, format, nil
	}
	if advice := media.Detect(data).Advice(); advice != "" {
		return Info{}, kind{}, Fault("it is " + advice)
	}
	return Info{}, kind{}, errKind
}

// timed is a reader that fails once its context has ended, which stops a decoder.
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
