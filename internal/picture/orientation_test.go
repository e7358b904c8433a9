package picture_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/reelay/reelay/internal/picture"
	"github.com/stretchr/testify/require"
)

// exif returns EXIF data with an orientation, in either byte order, behind another entry.
func exif(order binary.AppendByteOrder, orientation uint16) []byte {
	mark := "II*\x00"
	if order.String() == binary.BigEndian.String() {
		mark = "MM\x00*"
	}
	data := order.AppendUint32([]byte(mark), 8)
	data = order.AppendUint16(data, 2)
	for _, entry := range [][2]uint16{{0x0100, 640}, {0x0112, orientation}} {
		data = order.AppendUint16(data, entry[0])
		data = order.AppendUint16(data, 3)
		data = order.AppendUint32(data, 1)
		data = order.AppendUint16(data, entry[1])
		data = order.AppendUint16(data, 0)
	}
	return order.AppendUint32(data, 0)
}

// stored returns the pixels that a file of this orientation has if a red corner is at the top
// left, and a green one at the top right, of the upright image of 48 × 32 pixels.
func stored(orientation int) *image.NRGBA {
	w, h := 48, 32
	if orientation >= 5 {
		w, h = h, w
	}
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	// Where EXIF says the first row and the first column of the stored picture are shown.
	corners := map[int][2]image.Point{
		1: {{0, 0}, {1, 0}}, 2: {{1, 0}, {0, 0}}, 3: {{1, 1}, {0, 1}}, 4: {{0, 1}, {1, 1}},
		5: {{0, 0}, {0, 1}}, 6: {{0, 1}, {0, 0}}, 7: {{1, 1}, {1, 0}}, 8: {{1, 0}, {1, 1}},
	}[orientation]
	for y := range h {
		for x := range w {
			img.Set(x, y, color.NRGBA{40, 40, 40, 255})
			at := image.Pt(x*2/w, y*2/h)
			if at == corners[0] {
				img.Set(x, y, color.NRGBA{250, 20, 20, 255})
			} else if at == corners[1] {
				img.Set(x, y, color.NRGBA{20, 250, 20, 255})
			}
		}
	}
	return img
}

func asJPEG(t *testing.T, img image.Image, exif []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, jpeg.Encode(&out, img, &jpeg.Options{Quality: 95}))
	segment := append([]byte("Exif\x00\x00"), exif...)
	head := binary.BigEndian.AppendUint16([]byte("\xff\xd8\xff\xe0\x00\x04hi\xff\xe1"), uint16(len(segment)+2))
	return append(append(head, segment...), out.Bytes()[2:]...)
}

func asPNG(t *testing.T, img image.Image, exif []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, png.Encode(&out, img))
	chunk := append([]byte("eXIf"), exif...)
	head := binary.BigEndian.AppendUint32(bytes.Clone(out.Bytes()[:33]), uint32(len(exif)))
	head = binary.BigEndian.AppendUint32(append(head, chunk...), crc32.ChecksumIEEE(chunk))
	return append(head, out.Bytes()[33:]...)
}

func TestOrientation(t *testing.T) {
	t.Parallel()

	for turn := 1; turn <= 8; turn++ {
		for name, data := range map[string][]byte{
			"JPEG": asJPEG(t, stored(turn), exif(binary.BigEndian, uint16(turn))),
			"PNG":  asPNG(t, stored(turn), exif(binary.LittleEndian, uint16(turn))),
		} {
			img, info, err := picture.Decode(t.Context(), data)

			require.NoError(t, err)
			require.Equal(t, image.Rect(0, 0, 48, 32), img.Bounds(), "%s %d", name, turn)
			require.Equal(t, [2]int{48, 32}, [2]int{info.Width, info.Height})
			r, _, _, _ := img.At(5, 5).RGBA()
			_, g, _, _ := img.At(42, 5).RGBA()
			require.Greater(t, r, uint32(0xc000), "%s %d: red is at the top left", name, turn)
			require.Greater(t, g, uint32(0xc000), "%s %d: green is at the top right", name, turn)
		}
	}
	t.Run("IsUprightIfItCannotBeRead", func(t *testing.T) {
		t.Parallel()

		img := image.NewNRGBA(image.Rect(0, 0, 6, 4))
		whole := exif(binary.LittleEndian, 6)
		for n := range len(whole) - 16 {
			_, info, err := picture.Decode(t.Context(), asPNG(t, img, whole[:n]))
			require.NoError(t, err)
			require.Equal(t, 6, info.Width, n)
		}
		for _, bad := range [][]byte{exif(binary.BigEndian, 0), exif(binary.BigEndian, 9), []byte("II*\x00\xff\xff\xff\xff"),
			[]byte("II*\x00\x08\x00\x00\x00\xff\xff")} {
			_, info, err := picture.Decode(t.Context(), asJPEG(t, img, bad))
			require.NoError(t, err)
			require.Equal(t, 6, info.Width)
		}
	})

	t.Run("OfAWebP", func(t *testing.T) {
		t.Parallel()

		// A WebP of 1 × 1 pixel with a head that allows EXIF data.
		canvas := append([]byte("VP8X\x0a\x00\x00\x00\x08\x00\x00\x00"), 0, 0, 0, 0, 0, 0)
		data := append(canvas, []byte(webpPixel)[12:]...)
		more := exif(binary.LittleEndian, 6)
		data = append(binary.LittleEndian.AppendUint32(append(data, "EXIF"...), uint32(len(more))), more...)
		data = append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(data)+4)), append([]byte("WEBP"), data...)...)

		img, _, err := picture.Decode(t.Context(), data)

		require.NoError(t, err)
		require.Equal(t, "*picture.turned", typeName(img))
	})
}

func typeName(of any) string { return fmt.Sprintf("%T", of) }
