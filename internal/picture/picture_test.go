package picture_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/picture"
	"github.com/stretchr/testify/require"
)

// webpPixel is a WebP image of one pixel.
const webpPixel = "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"

func encoded(t testing.TB, width, height int) (asPNG, asJPEG []byte) {
	t.Helper()
	var p, j bytes.Buffer
	card := image.NewRGBA(image.Rect(0, 0, width, height))
	require.NoError(t, png.Encode(&p, card))
	require.NoError(t, jpeg.Encode(&j, card, nil))
	return p.Bytes(), j.Bytes()
}

// flood returns a PNG whose header declares this many pixels.
func flood(t testing.TB, width, height uint32) []byte {
	t.Helper()
	data, _ := encoded(t, 1, 1)
	head := data[12:29] // type and content of the first chunk
	binary.BigEndian.PutUint32(head[4:], width)
	binary.BigEndian.PutUint32(head[8:], height)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(head))
	return data
}

func TestCheck(t *testing.T) {
	t.Parallel()

	t.Run("AcceptsJPEGAndPNGAndWebP", func(t *testing.T) {
		t.Parallel()

		asPNG, asJPEG := encoded(t, 30, 20)

		fromPNG, err1 := picture.Check(t.Context(), asPNG)
		fromJPEG, err2 := picture.Check(t.Context(), asJPEG)
		fromWebP, err3 := picture.Check(t.Context(), []byte(webpPixel))

		require.NoError(t, err1)
		require.NoError(t, err2)
		require.NoError(t, err3)
		require.Equal(t, picture.Info{ContentType: "image/png", Width: 30, Height: 20}, fromPNG)
		require.Equal(t, picture.Info{ContentType: "image/jpeg", Width: 30, Height: 20}, fromJPEG)
		require.Equal(t, picture.Info{ContentType: "image/webp", Width: 1, Height: 1}, fromWebP)
	})

	t.Run("RefusesEverythingElse", func(t *testing.T) {
		t.Parallel()

		asPNG, asJPEG := encoded(t, 300, 200)
		var asGIF bytes.Buffer
		require.NoError(t, gif.Encode(&asGIF, image.NewRGBA(image.Rect(0, 0, 2, 2)), nil))
		_, err := picture.Check(t.Context(), []byte("RIFF\x2a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x3f\x01\x00\xef\x00\x00ANIM"))
		require.ErrorContains(t, err, "animated WebP")
		wide := []byte(webpPixel)
		copy(wide[21:], "\xff\xff\xff\x1f") // 16384 × 16384

		for name, data := range map[string]string{
			"nothing":          "",
			"text":             "hello",
			"HTML":             "<!doctype html><script>alert(1)</script>",
			"SVG":              `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
			"GIF":              asGIF.String(),
			"half a PNG":       string(asPNG[:len(asPNG)/2]),
			"half a JPEG":      string(asJPEG[:len(asJPEG)/2]),
			"a head of a JPEG": "\xff\xd8\xff",
			"half a WebP":      webpPixel[:30],
			"too many bytes":   string(asPNG) + strings.Repeat("x", picture.MaxBytes),
			"a pixel flood":    string(flood(t, 60_000, 60_000)),
			"a long line":      string(flood(t, 20_000, 1)),
			"no pixels":        string(flood(t, 0, 1)),
			"a WebP flood":     string(wide),
		} {
			_, err := picture.Check(t.Context(), []byte(data))

			var fault picture.Fault
			require.ErrorAs(t, err, &fault, name)
		}
	})

	t.Run("EndsWhenItsContextEnds", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		data, _ := encoded(t, 300, 200)

		_, err := picture.Check(ctx, data)

		require.ErrorIs(t, err, context.Canceled)
	})
}

func FuzzCheck(f *testing.F) {
	asPNG, asJPEG := encoded(f, 3, 2)
	for _, seed := range [][]byte{asPNG, asJPEG, []byte(webpPixel), flood(f, 60_000, 60_000), []byte("RIFF0000WEBP")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := picture.Check(t.Context(), data)
		if err == nil && (info.Width < 1 || info.Height < 1 || info.Width*info.Height > picture.MaxPixels) {
			t.Fatalf("accepted with %d × %d pixels", info.Width, info.Height)
		}
	})
}
