package testcard

import (
	"bytes"
	"image"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStills(t *testing.T) {
	t.Parallel()

	t.Run("AreTheMiddleAndFramesAtEqualDistances", func(t *testing.T) {
		t.Parallel()

		for _, test := range []struct {
			frames, columns, rows int
			shown                 []int
		}{
			{1, 1, 1, []int{0}},
			{7, 5, 2, []int{0, 1, 2, 3, 4, 5, 6}},
			{30, 5, 5, []int{0, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 26, 27, 28, 29}},
		} {
			// each frame has its own shade of grey
			f := video{frames: test.frames, fps: 10, width: 96, height: 54}
			to := filesIn(t.TempDir())
			e, err := startEncoder(t.Context(), f, to)
			require.NoError(t, err)
			for frame := range f.frames {
				require.NoError(t, e.write(bytes.Repeat([]byte{byte(8 * frame)}, f.width*f.height*3)))
			}

			require.NoError(t, e.finish())

			require.Equal(t, []int{f.frames / 2}, shown(t, to.thumbnail, image.Pt(640, 360), 1))
			size := image.Pt(240*test.columns, 135*test.rows)
			require.Equal(t, test.shown, shown(t, to.spritesheet, size, test.columns)[:len(test.shown)])
		}
	})
}

// shown returns the frames that a picture of that size shows, row by row.
func shown(t *testing.T, path string, size image.Point, columns int) (frames []int) {
	t.Helper()

	pixels, err := exec.Command("ffmpeg", "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "gray", "-").Output()
	require.NoError(t, err)
	require.Len(t, pixels, size.X*size.Y)
	width := size.X / columns
	height := width * 9 / 16
	for y := height / 2; y < size.Y; y += height {
		for x := width / 2; x < size.X; x += width {
			frames = append(frames, (int(pixels[y*size.X+x])+4)/8)
		}
	}
	return frames
}
