package progress

import (
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

func TestCells(t *testing.T) {
	t.Parallel()

	t.Run("DrawsTwoPixelsWithEachCharacter", func(t *testing.T) {
		t.Parallel()
		img := image.NewRGBA(image.Rect(0, 0, 1, 2))
		img.Set(0, 0, color.RGBA{R: 255, A: 255})
		img.Set(0, 1, color.RGBA{B: 255, A: 255})

		rows := Cells(img, 1, 1)

		require.Equal(t, []string{"\x1b[38;2;255;0;0m\x1b[48;2;0;0;255m▀\x1b[0m"}, rows)
	})
	for name, test := range map[string]struct{ width, height, columns, rows int }{
		"FitsALandscapeToTheColumns": {1920, 1080, 64, 18},
		"FitsAPortraitToTheRows":     {1080, 1920, 22, 20},
		"DrawsAtLeastOneCharacter":   {10000, 1, 64, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			rows := Cells(image.NewGray(image.Rect(0, 0, test.width, test.height)), previewCells, previewRows)

			require.Len(t, rows, test.rows)
			require.Equal(t, test.columns, strings.Count(rows[0], "▀"))
		})
	}
}

func TestDisplayPicture(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	d := &Display{out: &out, TTY: true, Width: func() int { return 40 }}
	step := func(percent float64) string {
		out.Reset()
		d.progress(client.Progress{Percent: percent, Phase: client.PhaseRendering})
		return out.String()
	}
	require.NotContains(t, step(1), "picture")

	d.Show([]string{"picture 1", "picture 1"})
	require.True(t, strings.HasPrefix(step(2), "picture 1\npicture 1\n\r"), "the picture is above the bar")
	require.NotContains(t, step(3), "picture", "it is drawn once")

	d.Note("a line")
	require.Contains(t, out.String(), "\r\x1b[2A\x1b[Ja line\n", "a line takes its place")
	require.Contains(t, step(4), "picture 1\n", "and it comes again below")

	out.Reset()
	d.Show([]string{"picture 2"})
	require.Equal(t, "\r\x1b[2A\x1b[J", out.String())
	require.NotContains(t, step(5), "picture 1")
}
