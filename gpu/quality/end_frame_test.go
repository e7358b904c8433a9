package quality_test

import (
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/reelay/reelay/gpu/hdr"
	"github.com/reelay/reelay/gpu/quality"
	"github.com/stretchr/testify/require"
)

// greys is a source of frames, each 6 levels brighter than the one before.
const greys = "color=c=black:s=96x64:r=10,format=gray,geq=lum='16+6*N',format=yuv420p"

// grey returns the brightness of a picture, 0 to 255, at its middle.
func grey(t *testing.T, path string) (brightness, width, height int) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	picture, err := png.Decode(file)
	require.NoError(t, err)
	at := picture.Bounds().Size()
	r, _, _, _ := picture.At(at.X/2, at.Y/2).RGBA()
	return int(r >> 8), at.X, at.Y
}

// shown is the brightness of frame n of greys.
func shown(n int) int { return 16 + 6*n }

func TestEndFrame(t *testing.T) {
	t.Parallel()

	x264 := []string{"-c:v", "libx264", "-preset", "veryfast", "-crf", "1", "-bf", "3", "-g", "250"}
	for name, clip := range map[string]struct {
		file string
		args []string
		last int
	}{
		"WithBFrames": {"a.mp4", append([]string{"-f", "lavfi", "-i", greys, "-frames:v", "30"}, x264...), 29},
		"OfOneFrame":  {"a.mp4", append([]string{"-f", "lavfi", "-i", greys, "-frames:v", "1"}, x264...), 0},
		"WithSoundThatIsLonger": {"a.mp4", append([]string{"-f", "lavfi", "-i", greys, "-f", "lavfi", "-i", "sine=d=75", "-frames:v",
			"30", "-c:a", "aac"}, x264...), 29},
		"WithSoundThatIsLongerInMatroska": {"a.mkv", append([]string{"-f", "lavfi", "-i", greys, "-f", "lavfi", "-i", "sine=d=75", "-frames:v",
			"30", "-c:a", "aac"}, x264...), 29},
		"OfVariableRate": {"a.mp4", append([]string{"-f", "lavfi", "-i", greys + ",setpts=N*N/20/TB", "-vsync", "passthrough",
			"-frames:v", "30"}, x264...), 29},
		"AfterALongPause": {"a.mp4", append([]string{"-f", "lavfi", "-i", greys + ",setpts='if(lt(N,29),N/10,100)/TB'", "-vsync",
			"passthrough", "-frames:v", "30"}, x264...), 29},
		"ThatBeginsLate": {"a.mkv", append([]string{"-f", "lavfi", "-i", greys + ",setpts='(20+N/10)/TB'", "-vsync",
			"passthrough", "-copyts", "-frames:v", "30"}, x264...), 29},
		"InVP9": {"a.webm", []string{"-f", "lavfi", "-i", greys, "-frames:v", "30", "-c:v", "libvpx-vp9", "-lossless",
			"1", "-deadline", "realtime", "-cpu-used", "8"}, 29},
	} {
		t.Run("IsTheTrueOne"+name, func(t *testing.T) {
			t.Parallel()

			folder := t.TempDir()
			video := filepath.Join(folder, clip.file)
			out, err := ffmpeg(t.Context(), append(append([]string{"-v", "error"}, clip.args...), video)...)
			require.NoError(t, err, "%s", out)

			for end, n := range map[quality.End]int{quality.FirstFrame: 0, quality.LastFrame: clip.last} {
				picture := filepath.Join(folder, string(end)+".png")
				require.NoError(t, quality.EndFrame(t.Context(), video, end, picture))
				brightness, width, height := grey(t, picture)
				require.InDelta(t, shown(n), brightness, 2.5, "%s", end)
				require.Equal(t, []int{96, 64}, []int{width, height})
			}
		})
	}

	t.Run("OfAFileThatIsCutIsTheLastOneThatDecodes", func(t *testing.T) {
		t.Parallel()

		folder := t.TempDir()
		video, picture := filepath.Join(folder, "a.mp4"), filepath.Join(folder, "last.png")
		args := append([]string{"-v", "error", "-f", "lavfi", "-i", greys, "-frames:v", "30", "-c:v", "libx264", "-qp", "0", "-g", "1",
			"-movflags", "+faststart"}, video)
		out, err := ffmpeg(t.Context(), args...)
		require.NoError(t, err, "%s", out)
		info, err := os.Stat(video)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(video, info.Size()*4/5))

		require.NoError(t, quality.EndFrame(t.Context(), video, quality.LastFrame, picture))

		brightness, _, _ := grey(t, picture)
		require.Greater(t, brightness, shown(10))
		require.Less(t, brightness, shown(29)-2)
	})

	t.Run("OfNoVideoIsAnError", func(t *testing.T) {
		t.Parallel()

		folder := t.TempDir()
		text, sound, picture := filepath.Join(folder, "a.mp4"), filepath.Join(folder, "b.mp4"), filepath.Join(folder, "last.png")
		require.NoError(t, os.WriteFile(text, []byte("no video"), 0o600))
		out, err := ffmpeg(t.Context(), "-v", "error", "-f", "lavfi", "-i", "sine=d=1", "-c:a", "aac", sound)
		require.NoError(t, err, "%s", out)

		for _, path := range []string{text, sound, filepath.Join(folder, "none.mp4")} {
			for _, end := range []quality.End{quality.FirstFrame, quality.LastFrame} {
				require.ErrorIs(t, quality.EndFrame(t.Context(), path, end, picture), quality.ErrNoFrame, path)
				require.NoFileExists(t, picture)
			}
		}
	})
}

// Players show pixels that are not square stretched, and HDR as bright as the screen allows.
func TestEndFrameAsPlayersShowIt(t *testing.T) {
	t.Parallel()

	picture := func(t *testing.T, graph string, options ...string) (brightness, width, height int) {
		folder := t.TempDir()
		clip, to := filepath.Join(folder, "a.mp4"), filepath.Join(folder, "a.png")
		out, err := ffmpeg(t.Context(), append(append([]string{"-v", "error", "-nostdin", "-f", "lavfi", "-i", graph, "-frames:v", "3", "-c:v",
			"libx264", "-preset", "ultrafast"}, options...), clip)...)
		require.NoError(t, err, "%s", out)
		require.NoError(t, quality.EndFrame(t.Context(), clip, quality.LastFrame, to))
		return grey(t, to)
	}

	for shape, want := range map[string][2]int{"4/3": {128, 64}, "8/9": {96, 72}, "1": {96, 64}} {
		_, width, height := picture(t, "color=gray:s=96x64:r=10,setsar="+shape, "-pix_fmt", "yuv420p")
		require.Equal(t, want, [2]int{width, height}, shape)
	}
	if missing, err := hdr.Missing(t.Context()); err != nil || missing != "" {
		t.Skip("this ffmpeg cannot convert HDR")
	}
	// Diffuse white of PQ is 58 % of the signal: 573 of 1023 in the limited range.
	brightness, width, _ := picture(t, "color=black:s=95x64:r=10,format=yuv444p10le,geq=lum=573:cb=512:cr=512",
		"-pix_fmt", "yuv444p10le", "-color_primaries", "bt2020", "-color_trc", "smpte2084", "-colorspace", "bt2020nc")
	require.Equal(t, 95, width)
	require.Greater(t, brightness, 200, "white as SDR shows it; unconverted it would be 148")
}
