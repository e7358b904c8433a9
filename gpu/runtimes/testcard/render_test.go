package testcard_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	_ "golang.org/x/image/webp"
)

func TestRender(t *testing.T) {
	t.Parallel()

	t.Run("MakesAVideoThatBrowsersCanPlay", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		for params, want := range map[string]string{
			`{"pace":0,"durationSeconds":0.5}`:                                                      "h264 854x480 yuv420p 24/1 12",
			`{"pace":0,"durationSeconds":0.5,"aspectRatio":"9:16","fps":5}`:                         "h264 480x854 yuv420p 5/1 3",
			`{"pace":0,"durationSeconds":5e-1,"aspectRatio":"1:1","fps":1}`:                         "h264 480x480 yuv420p 1/1 1",
			`{"pace":0,"durationSeconds":0.5,"size":"1024x1792","fps":2}`:                           "h264 1024x1792 yuv420p 2/1 1",
			`{"pace":0,"durationSeconds":0.5,"resolution":"720p","fps":2.0}`:                        "h264 1280x720 yuv420p 2/1 1",
			`{"pace":0,"durationSeconds":0.5,"resolution":"1080p","fps":2,"seed":9007199254740992}`: "h264 1920x1080 yuv420p 2/1 1",
		} {
			result := render(t, p, newJob(t, "A calm sea", params))

			require.Equal(t, want, probe(t, result.Video), params)
			requireFastStart(t, result.Video)
		}
	})

	t.Run("MakesStillsAndDescribesTheVideo", func(t *testing.T) {
		t.Parallel()

		result := render(t, launch(t), newJob(t, "A calm sea", `{"pace":0,"durationSeconds":0.5,"fps":4,"seed":9007199254740991}`))

		require.Equal(t, "webp (640,359)", picture(t, result.Thumbnail))
		require.Equal(t, "jpeg (480,134)", picture(t, result.Spritesheet))
		require.JSONEq(t, `{"width":854,"height":480,"fps":4,"frames":2,"durationSeconds":0.5,
			"seed":9007199254740991,"steps":24}`, string(result.Output))
	})

	t.Run("DrawsTheSameOnlyForTheSamePromptAndSeed", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		video := func(prompt string, seed int) string {
			params := fmt.Sprintf(`{"pace":0,"durationSeconds":0.5,"fps":4,"aspectRatio":"1:1","seed":%d}`, seed)
			return frames(t, render(t, p, newJob(t, prompt, params)).Video)
		}

		first := video("A calm sea", 1)

		require.Equal(t, first, video("A calm sea", 1))
		require.NotEqual(t, first, video("A calm sea", 2))
		require.NotEqual(t, first, video("A calm see", 1))
	})

	t.Run("DrawsAnyPrompt", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		for _, prompt := range []string{
			"", " \t\r\n ", "🎬👩‍👩‍👧‍👦 sunrise 🇯🇵", "שלום עולם مرحبا بالعالم", "a\x00b\x1b[31mc\u202e\ufeff", "東京の夜",
			string(bytes.Repeat([]byte("W"), 10_000)), string(bytes.Repeat([]byte("a storm "), 1250)), "e\u0301\u0301\u0301",
		} {
			require.NotEmpty(t, render(t, p, newJob(t, prompt, `{"pace":0,"durationSeconds":0.5,"fps":1,"aspectRatio":"1:1"}`)).Video)
		}
	})

	t.Run("TakesAsLongAsItsPaceDemands", func(t *testing.T) {
		t.Parallel()

		began := time.Now()
		render(t, launch(t), newJob(t, "A calm sea", `{"pace":2,"durationSeconds":0.5,"fps":2}`))

		require.GreaterOrEqual(t, time.Since(began), time.Second)
	})

	t.Run("RefusesWrongParams", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		for params, want := range map[string]string{
			`{"durationSeconds":0.49}`:         "durationSeconds is 0.49; it must be from 0.5 to 60.",
			`{"durationSeconds":1e999999999}`:  "durationSeconds is 1e999999999; it must be from 0.5 to 60.",
			`{"durationSeconds":1e-999999999}`: "durationSeconds is 1e-999999999; it must be from 0.5 to 60.",
			`{"fps":23.976}`:                   "fps is 23.976; it must be a whole number.",
			`{"seed":9007199254740993}`:        "seed is 9007199254740993; it must be from 0 to 9007199254740992.",
			`{"seed":-1,"pace":601}`:           "seed is -1; it must be from 0 to 9007199254740992; pace is 601; it must be from 0 to 600.",
			`{"resolution":"4k"}`:              `resolution is "4k"; it must be 480p, 720p or 1080p.`,
			`{"size":"64x64"}`:                 `size is "64x64"; it must be 720x1280, 1280x720, 1024x1792, 1792x1024, 1080x1920 or 1920x1080.`,
			`{"aspectRatio":"4:3"}`:            `aspectRatio is "4:3"; it must be 16:9, 9:16 or 1:1.`,
			`{"steps":5}`:                      `"steps" is not a parameter of this model.`,
			`{"FPS":5}`:                        `"FPS" is not a parameter of this model.`,
			`[]`:                               "the params are []; they must be an object.",
			`null`:                             "the params are null; they must be an object.",
			`{"pace":"1"}`:                     "pace must be a number.",
			`{"fps":null}`:                     "fps must be a number.",
			`{"resolution":480}`:               "resolution must be a string.",
		} {
			require.NoError(t, p.Start(newJob(t, "A calm sea", params)))
			failure := one[*runtime.Failure](t, until(t, p, isEnd))

			require.Equal(t, runtime.InvalidInput, failure.Class, params)
			require.Equal(t, want, failure.Message)
		}
	})
}

func TestFFmpeg(t *testing.T) {
	t.Parallel()

	t.Run("FailsTheJobIfItIsMissing", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "PATH="+t.TempDir())
		require.NoError(t, p.Start(newJob(t, "A calm sea", `{}`)))

		failure := one[*runtime.Failure](t, until(t, p, isEnd))

		require.Equal(t, runtime.ModelCrash, failure.Class)
		require.Contains(t, failure.Message, "apt-get install ffmpeg")
	})

	t.Run("HasItsErrorReportedWhenItDies", func(t *testing.T) {
		t.Parallel()

		p := launch(t, withFFmpeg(t, "echo 'No space left on device' >&2; exit 28"))
		require.NoError(t, p.Start(newJob(t, "A calm sea", fast)))

		failure := one[*runtime.Failure](t, until(t, p, isEnd))

		require.Equal(t, "ffmpeg ended before the video was encoded (exit status 28): No space left on device", failure.Message)
	})

	t.Run("MakesAJPEGIfItHasNoWebP", func(t *testing.T) {
		t.Parallel()

		ffmpeg, err := exec.LookPath("ffmpeg")
		require.NoError(t, err)
		script := `case "$*" in *-encoders) echo " V....D mjpeg ";; *libwebp*) exit 1;; *) exec ` + ffmpeg + ` "$@";; esac`

		result := render(t, launch(t, withFFmpeg(t, script)), newJob(t, "A calm sea", `{"pace":0,"durationSeconds":0.5,"fps":1}`))

		require.Equal(t, "thumbnail.jpg", filepath.Base(result.Thumbnail))
		require.Equal(t, "jpeg (640,359)", picture(t, result.Thumbnail))
	})
}

// picture returns the format and the size of a picture file.
func picture(t *testing.T, path string) string {
	t.Helper()

	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	found, format, err := image.DecodeConfig(file)
	require.NoError(t, err)
	return fmt.Sprintf("%s (%d,%d)", format, found.Width, found.Height)
}

// withFFmpeg returns an environment in which ffmpeg is the given shell script.
func withFFmpeg(t *testing.T, script string) string {
	t.Helper()

	bin := t.TempDir()
	testrun.WriteProgram(t, filepath.Join(bin, "ffmpeg"), "#!/bin/sh\n"+script+"\n")
	return "PATH=" + bin + ":" + os.Getenv("PATH")
}

// probe returns the video stream's codec, size, pixel format, rate and frame count.
func probe(t *testing.T, video string) string {
	t.Helper()

	out, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-show_streams", "-of", "json", video).Output()
	require.NoError(t, err)
	var found struct {
		Streams []struct {
			Codec  string `json:"codec_name"`
			Pixels string `json:"pix_fmt"`
			Width  int    `json:"width"`
			Height int    `json:"height"`
			Rate   string `json:"r_frame_rate"`
			Frames string `json:"nb_read_frames"`
		}
	}
	require.NoError(t, json.Unmarshal(out, &found))
	require.Len(t, found.Streams, 1)
	s := found.Streams[0]
	return fmt.Sprintf("%s %dx%d %s %s %s", s.Codec, s.Width, s.Height, s.Pixels, s.Rate, s.Frames)
}

// requireFastStart checks that the index precedes the data, so that a player can
// begin at once.
func requireFastStart(t *testing.T, video string) {
	t.Helper()

	content, err := os.ReadFile(video)
	require.NoError(t, err)
	index, data := bytes.Index(content, []byte("moov")), bytes.Index(content, []byte("mdat"))
	require.Positive(t, index)
	require.Greater(t, data, index)
}
