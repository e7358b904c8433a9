package stitch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/hdr"
	"github.com/stretchr/testify/require"
)

// clipOf makes a clip from a graph.
func clipOf(t *testing.T, graph string, options ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	ffmpeg(t, append(append([]string{"-f", "lavfi", "-i", graph, "-c:v", "libx264", "-preset", "ultrafast"}, options...), path)...)
	return path
}

// white returns the width and the height of the white area of a frame.
func white(t *testing.T, video string) (width, height int) {
	t.Helper()
	raw := ffmpeg(t, "-i", video, "-frames:v", "1", "-pix_fmt", "gray", "-f", "rawvideo", "-")
	var size struct{ Streams []struct{ Width, Height int } }
	out, err := exec.Command("ffprobe", "-v", "error", "-of", "json", "-show_entries", "stream=width,height", "-select_streams", "v",
		video).Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &size))
	w, left, right, top, bottom := size.Streams[0].Width, 1<<30, -1, 1<<30, -1
	for i, value := range raw {
		if value > 160 {
			left, right, top, bottom = min(left, i%w), max(right, i%w), min(top, i/w), max(bottom, i/w)
		}
	}
	return right - left + 1, bottom - top + 1
}

// tags returns how the colours of a video are described.
func tags(t *testing.T, video string) string {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-of", "csv=p=0", "-select_streams", "v", "-show_entries",
		"stream=pix_fmt,color_range,color_space,color_transfer,color_primaries,sample_aspect_ratio", video).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

const square = "drawbox=x=(iw-w)/2:y=(ih-h)/2:w=120:h=120:color=white:t=fill"

// Clips as cameras, phones and television make them.
func TestStitchOfForeignClips(t *testing.T) {
	t.Parallel()

	t.Run("KeepsShapes", func(t *testing.T) {
		t.Parallel()
		wide := clipOf(t, "color=black:s=240x320:r=10:d=1,"+square+",setsar=4/3", "-pix_fmt", "yuv420p")
		high := clipOf(t, "color=black:s=320x240:r=10:d=1,"+square+",setsar=8/9", "-pix_fmt", "yuv420p")
		turned := filepath.Join(t.TempDir(), "turned.mp4") // ffmpeg 5 writes the rotation, later ones the matrix
		ffmpeg(t, "-i", wide, "-c", "copy", "-metadata:s:v", "rotate=90", turned)
		odd := clipOf(t, "color=black:s=321x241:r=10:d=1,"+square, "-pix_fmt", "yuv444p")
		for name, c := range map[string]struct {
			clips         []string
			params        string
			width, height int
			film          string
		}{
			"wide pixels":           {[]string{wide}, `{}`, 160, 120, "320,320"},
			"high pixels":           {[]string{high}, `{}`, 120, 135, "320,270"},
			"turned by 90°":         {[]string{turned}, `{}`, 120, 160, "320,320"},
			"in another shape":      {[]string{wide}, `{"width": 640, "height": 320}`, 160, 120, "640,320"},
			"behind square pixels":  {[]string{odd, wide}, `{}`, 120, 120, "320,240"},
			"only the height given": {[]string{wide}, `{"height": 160}`, 80, 60, "160,160"},
		} {
			d := join(t, c.params, "", c.clips...)
			require.Contains(t, d.probed(t), "h264,"+c.film+",", name)
			w, h := white(t, d.video)
			require.InDelta(t, c.width, w, 3, name)
			require.InDelta(t, c.height, h, 3, name)
		}
	})

	t.Run("TakesTheRateOfMostOfAVariableOne", func(t *testing.T) {
		t.Parallel()
		for rate, want := range map[string]string{"30": "30/1", "24000/1001": "24000/1001", "60": "60/1"} {
			// Of six seconds, all but a frame of every second second are left out.
			paused := clipOf(t, fmt.Sprintf("testsrc2=s=160x90:r=%s:d=6,select='lt(mod(t,2),1)+lt(mod(t,2),1.001)'", rate), "-vsync", "vfr",
				"-pix_fmt", "yuv420p")
			require.Contains(t, join(t, `{}`, "", paused).probed(t), ","+want+",", "the rate of %s with pauses", rate)
			matroska := filepath.Join(t.TempDir(), "clip.webm") // rounds times to milliseconds
			ffmpeg(t, "-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=160x90:r=%s:d=4,select='lt(mod(t,2),1)'", rate), "-vsync", "vfr", "-c:v",
				"libvpx", matroska)
			require.Contains(t, join(t, `{}`, "", matroska).probed(t), ","+want+",", "the rate of %s in WebM", rate)
		}
		require.Contains(t, join(t, `{}`, "", clipOf(t, "testsrc2=s=160x90:r=30000/1001:d=1", "-pix_fmt", "yuv420p")).probed(t), "30000/1001")
	})

	t.Run("ConvertsHDR", func(t *testing.T) {
		t.Parallel()
		if missing, err := hdr.Missing(t.Context()); err != nil || missing != "" {
			t.Skip("this ffmpeg cannot convert HDR")
		}
		sdr := clipOf(t, "color=0xc04020:s=160x90:r=10:d=1", "-pix_fmt", "yuv420p")
		for transfer, kind := range map[string]string{"smpte2084": "PQ", "arib-std-b67": "HLG"} {
			require.Equal(t, kind, hdr.Kind(transfer))
			bright := clipOf(t, "color=0xc04020:s=160x90:r=10:d=1,format=gbrp,scale=out_color_matrix=bt709,format=yuv444p,"+
				"setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709,zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt2020,zscale=t="+transfer+":m=bt2020nc:r=tv:npl=203,format=yuv420p10le",
				"-color_primaries", "bt2020", "-color_trc", transfer, "-colorspace", "bt2020nc")
			require.Contains(t, tags(t, bright), transfer)

			d := join(t, `{}`, "", bright, sdr)

			require.Contains(t, d.probed(t), "10/1,20")
			require.Equal(t, "1:1,yuv420p,tv,bt709,bt709,bt709", tags(t, d.video))
			was, is := d.colour(t, 0.5), d.colour(t, 1.5)
			for i := range 3 {
				require.InDelta(t, is[i], was[i], 40, "%s: %v as SDR is %v", kind, is, was)
			}
		}
	})

	t.Run("KeepsColoursOfEveryDescription", func(t *testing.T) {
		t.Parallel()
		for name, clip := range map[string]string{
			"BT.709": clipOf(t, "color=0xc04020:s=160x90:r=10:d=1,format=gbrp,scale=out_color_matrix=bt709,format=yuv420p",
				"-pix_fmt", "yuv420p", "-colorspace", "bt709"),
			"BT.601":                   clipOf(t, "color=0xc04020:s=160x90:r=10:d=1", "-pix_fmt", "yuv420p", "-colorspace", "smpte170m"),
			"BT.601 in the full range": clipOf(t, "color=0xc04020:s=160x90:r=10:d=1,format=yuvj420p", "-colorspace", "smpte170m"),
			"no description":           clipOf(t, "color=0xc04020:s=160x90:r=10:d=1", "-pix_fmt", "yuv420p"),
			"no description, in HD": clipOf(t, "color=0xc04020:s=1280x720:r=5:d=1,format=gbrp,scale=out_color_matrix=bt709,format=yuv420p",
				"-pix_fmt", "yuv420p"),
			"10 bits":                    clipOf(t, "color=0xc04020:s=160x90:r=10:d=1", "-pix_fmt", "yuv422p10le"),
			"interlaced television":      clipOf(t, "color=0xc04020:s=160x96:r=20:d=1,interlace", "-pix_fmt", "yuv420p", "-flags", "+ildct+ilme"),
			"pictures without subsample": clipOf(t, "color=0xc04020:s=160x90:r=10:d=1", "-pix_fmt", "yuv444p"),
		} {
			d := join(t, `{"width": 160}`, "", clip)
			require.Equal(t, "1:1,yuv420p,tv,bt709,bt709,bt709", tags(t, d.video), name)
			colour := d.colour(t, 0.5)
			for i, want := range []int{0xc0, 0x40, 0x20} {
				require.InDelta(t, want, colour[i], 8, "%s: %x", name, colour)
			}
		}
	})

	t.Run("JoinsTheLinesOfAnInterlacedClip", func(t *testing.T) {
		t.Parallel()
		moving := clipOf(t, "color=black:s=160x96:r=20:d=1[under];color=white:s=40x96:r=20[bar];[under][bar]overlay=x='mod(n*9,120)':shortest=1,interlace=scan=bff:lowpass=off",
			"-pix_fmt", "yuv420p", "-flags", "+ildct+ilme", "-crf", "10")

		d := join(t, `{}`, "", moving)

		raw := ffmpeg(t, "-ss", "0.5", "-i", d.video, "-frames:v", "1", "-pix_fmt", "gray", "-f", "rawvideo", "-")
		combed := 0
		for y := 21; y < 75; y++ {
			for x := range 160 {
				above, here, below := int(raw[(y-1)*160+x]), int(raw[y*160+x]), int(raw[(y+1)*160+x])
				if (here-above)*(here-below) > 60*60 {
					combed++
				}
			}
		}
		require.Less(t, combed, 100, "lines of two moments are not shown together")
	})
}

func TestPictureOfWideClips(t *testing.T) {
	t.Parallel()
	d := join(t, `{}`, "", clipOf(t, "color=black:s=240x320:r=10:d=1,"+square+",setsar=4/3", "-pix_fmt", "yuv420p"))

	out := bytes.TrimSpace(ffmpeg(t, "-i", d.thumbnail, "-vf", "format=gray,scale=320:320", "-f", "rawvideo", "-"))

	require.Len(t, out, 320*320, "the thumbnail has the shape of the video")
}

// It changes the environment, so it runs alone.
func TestRefusesHDRWithoutTheFilters(t *testing.T) {
	// An ffmpeg without filters, before the real one.
	folder := t.TempDir()
	real, err := exec.LookPath("ffmpeg")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ffmpeg"),
		fmt.Appendf(nil, "#!/bin/sh\ncase \"$*\" in *-filters*) echo ' ... scale V->V';; *) exec %s \"$@\";; esac\n", real), 0o700))
	bright := clipOf(t, "testsrc2=s=160x90:r=10:d=1", "-pix_fmt", "yuv420p10le", "-color_primaries", "bt2020", "-color_trc", "smpte2084",
		"-colorspace", "bt2020nc")
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))

	d := join(t, `{}`, "", bright)

	require.EqualError(t, d.err, "Clip 1 is HDR (PQ), and the ffmpeg of this worker cannot convert it to SDR: it lacks the filter zscale. Convert the clip to SDR first.")
	require.Equal(t, "INVALID_INPUT", d.reports[len(d.reports)-1].Error.Class)
}
