package command_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/hdr"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

// shipped is a job of a model that comes with Reelay.
func shipped(t *testing.T, name, params string, inputs map[string]string) runtime.Start {
	t.Helper()
	all, err := catalogue.Load()
	require.NoError(t, err)
	model, err := all.Model(name)
	require.NoError(t, err)
	require.Equal(t, "command", model.Runtime)
	valid, err := model.Params([]byte(params))
	require.NoError(t, err)
	start := job(t, string(model.Settings), string(valid))
	start.Inputs = inputs
	return start
}

func TestShipped(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	wide := filepath.Join(folder, "input-3")
	video, sound, text := filepath.Join(folder, "input-0"), filepath.Join(folder, "input-1"), filepath.Join(folder, "input-2")
	for _, args := range [][]string{
		{"-f", "lavfi", "-i", "testsrc=s=320x180:d=2:r=10", "-f", "mp4", video},
		{"-f", "lavfi", "-i", "testsrc=s=240x320:d=1:r=10,setsar=4/3", "-f", "mp4", wide},
		{"-f", "lavfi", "-i", "sine=d=1", "-f", "mp4", sound},
		{"-f", "lavfi", "-i", "testsrc=d=1", "-frames:v", "1", "-f", "image2pipe", text},
	} {
		out, err := exec.Command("ffmpeg", append([]string{"-v", "error"}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}

	t.Run("StitchJoinsClips", func(t *testing.T) {
		t.Parallel()

		result := end[*runtime.Result](t, launch(t), shipped(t, "video.stitch", `{"clips": ["job_1", "job_2"], "crossfadeSeconds": 0.5}`,
			map[string]string{"clips.0": video, "clips.1": video}))

		require.FileExists(t, result.Video)
		require.FileExists(t, result.Thumbnail)
	})

	t.Run("StitchSaysWhichClipIsBad", func(t *testing.T) {
		t.Parallel()

		failure := end[*runtime.Failure](t, launch(t), shipped(t, "video.stitch", `{"clips": ["job_1", "job_2"]}`,
			map[string]string{"clips.0": video, "clips.1": text}))

		require.Equal(t, runtime.InvalidInput, failure.Class)
		require.Contains(t, failure.Message, "Clip 2 cannot be used")
	})

	t.Run("ThumbnailTakesAPicture", func(t *testing.T) {
		t.Parallel()

		result := end[*runtime.Result](t, launch(t), shipped(t, "video.thumbnail", `{"video": "job_1", "atSeconds": 1.5, "width": 100}`,
			map[string]string{"video": video}))

		out, err := exec.Command("ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0",
			result.Thumbnail).Output()
		require.NoError(t, err)
		require.Equal(t, "webp,100,56", strings.TrimSpace(string(out)))
	})

	t.Run("ThumbnailOfHDRHasTheColoursOfSDR", func(t *testing.T) {
		t.Parallel()
		if missing, err := hdr.Missing(t.Context()); err != nil || missing != "" {
			t.Skip("this ffmpeg cannot convert HDR")
		}
		for _, transfer := range []string{"smpte2084", "arib-std-b67"} {
			bright := filepath.Join(t.TempDir(), "input-0")
			out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i",
				"color=0xc04020:s=160x90:r=10:d=1,format=gbrp,scale=out_color_matrix=bt709,format=yuv444p,"+
					"setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709,zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt2020,zscale=t="+transfer+":m=bt2020nc:r=tv:npl=203,format=yuv420p10le",
				"-color_primaries", "bt2020", "-color_trc", transfer, "-colorspace", "bt2020nc", "-f", "mp4", bright).CombinedOutput()
			require.NoError(t, err, string(out))

			result := end[*runtime.Result](t, launch(t), shipped(t, "video.thumbnail", `{"video": "job_1", "atSeconds": 0.5, "width": 80}`,
				map[string]string{"video": bright}))

			pixel, err := exec.Command("ffmpeg", "-v", "error", "-i", result.Thumbnail, "-vf", "scale=1:1", "-f", "rawvideo", "-pix_fmt", "rgb24",
				"pipe:1").Output()
			require.NoError(t, err)
			require.Len(t, pixel, 3)
			for i, want := range []byte{0xc0, 0x40, 0x20} {
				require.InDelta(t, want, pixel[i], 45, "%s: %v", transfer, pixel)
			}
		}
	})

	t.Run("ThumbnailHasTheShapeOfTheVideo", func(t *testing.T) {
		t.Parallel()

		result := end[*runtime.Result](t, launch(t), shipped(t, "video.thumbnail", `{"video": "job_1", "atSeconds": 0, "width": 160}`,
			map[string]string{"video": wide}))

		out, err := exec.Command("ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0",
			result.Thumbnail).Output()
		require.NoError(t, err)
		require.Equal(t, "webp,160,160", strings.TrimSpace(string(out)), "240 × 320 pixels of 4:3 are shown as 320 × 320")
	})

	for name, c := range map[string]struct{ file, at, says string }{
		"ASound":    {sound, "0", "has no video"},
		"NoVideo":   {text, "0", "cannot be read"},
		"TheEnd":    {video, "2.5", "no picture at this moment"},
		"ALongTime": {video, "86400", "no picture at this moment"},
	} {
		t.Run("ThumbnailRefuses"+name, func(t *testing.T) {
			t.Parallel()

			failure := end[*runtime.Failure](t, launch(t), shipped(t, "video.thumbnail", `{"video": "job_1", "atSeconds": `+c.at+`}`,
				map[string]string{"video": c.file}))

			require.Equal(t, runtime.InvalidInput, failure.Class, failure.Message+failure.Detail)
			require.Contains(t, failure.Message, c.says)
		})
	}
}
