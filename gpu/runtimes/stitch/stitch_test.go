package stitch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/runtimes/stitch"
	"github.com/reelay/reelay/internal/program"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

// ffmpeg runs ffmpeg and returns its standard output.
func ffmpeg(t *testing.T, args ...string) []byte {
	t.Helper()
	command := exec.Command("ffmpeg", append([]string{"-v", "error", "-nostdin", "-y"}, args...)...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	require.NoError(t, err, said.String())
	return out
}

// shot is a clip to make.
type shot struct {
	colour  string
	size    string
	fps     string
	seconds float64
	tone    int // Hz; 0 for no sound
}

// clip makes a clip of one colour.
func (s shot) clip(t *testing.T, folder, name string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	args := []string{"-f", "lavfi", "-i", fmt.Sprintf("color=c=%s:s=%s:r=%s:d=%g", s.colour, s.size, s.fps, s.seconds)}
	if s.tone > 0 {
		args = append(args, "-f", "lavfi", "-i", fmt.Sprintf("sine=f=%d:d=%g:r=22050", s.tone, s.seconds), "-c:a", "aac")
	}
	ffmpeg(t, append(args, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", path)...)
	return path
}

// cut returns the first two thirds of a file that ffmpeg made with these options.
func cut(t *testing.T, path string, options ...string) string {
	t.Helper()
	made := filepath.Join(t.TempDir(), "cut"+filepath.Ext(path))
	ffmpeg(t, append(append([]string{"-i", path}, options...), made)...)
	data, err := os.ReadFile(made)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(made, data[:len(data)*2/3], 0o600))
	return made
}

// done is a stitched video.
type done struct {
	video, thumbnail string
	reports          []program.Report
	err              error
}

// join stitches files.
func join(t *testing.T, params string, music string, clips ...string) done {
	t.Helper()
	folder := t.TempDir()
	d := done{video: filepath.Join(folder, "video.mp4"), thumbnail: filepath.Join(folder, "thumbnail.webp")}
	inputs := map[string]string{}
	for i, clip := range clips {
		inputs["clips."+strconv.Itoa(i)] = clip
	}
	if music != "" {
		inputs["music"] = music
	}
	given := program.Job{Inputs: inputs, Outputs: map[string]string{"video": d.video, "thumbnail": d.thumbnail}}
	require.NoError(t, json.Unmarshal([]byte(params), &given.Params))
	data, err := json.Marshal(given)
	require.NoError(t, err)
	path := filepath.Join(folder, "job.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	var out bytes.Buffer
	d.err = stitch.Main(t.Context(), path, &out)
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var report program.Report
		require.NoError(t, decoder.Decode(&report))
		d.reports = append(d.reports, report)
	}
	return d
}

// probed returns what ffprobe says about the streams.
func (d done) probed(t *testing.T) string {
	t.Helper()
	require.NoError(t, d.err)
	out, err := exec.Command("ffprobe", "-v", "error", "-count_frames", "-of", "csv=p=0", "-show_entries",
		"stream=codec_name,width,height,r_frame_rate,nb_read_frames", "-select_streams", "v", d.video).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// sounds reports whether the video has an audio track.
func (d done) sounds(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-of", "csv=p=0", "-show_entries", "stream=codec_name", "-select_streams", "a",
		d.video).Output()
	require.NoError(t, err)
	return len(bytes.TrimSpace(out)) > 0
}

// colour returns the mean colour at a time.
func (d done) colour(t *testing.T, at float64) [3]int {
	t.Helper()
	pixel := ffmpeg(t, "-ss", fmt.Sprint(at), "-i", d.video, "-frames:v", "1", "-vf", "scale=1:1:flags=area,format=rgb24", "-f", "rawvideo",
		"-")
	require.Len(t, pixel, 3)
	return [3]int{int(pixel[0]), int(pixel[1]), int(pixel[2])}
}

// loudness returns the power of a tone between two times, from 0 to 1.
func (d done) loudness(t *testing.T, hertz, from, to float64) float64 {
	t.Helper()
	const rate = 8000
	raw := ffmpeg(t, "-i", d.video, "-af", fmt.Sprintf("atrim=%g:%g", from, to), "-ac", "1", "-ar", fmt.Sprint(rate), "-f", "f64le", "-")
	var re, im float64
	n := len(raw) / 8
	for i := range n {
		var bits uint64
		for b := range 8 {
			bits |= uint64(raw[i*8+b]) << (8 * b)
		}
		sample := math.Float64frombits(bits)
		re += sample * math.Cos(2*math.Pi*hertz*float64(i)/rate)
		im += sample * math.Sin(2*math.Pi*hertz*float64(i)/rate)
	}
	return 2 * math.Hypot(re, im) / float64(n)
}

func TestStitch(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	red := shot{"red", "320x180", "24", 2, 440}.clip(t, folder, "red.mp4")
	blue := shot{"blue", "180x320", "30", 1.5, 0}.clip(t, folder, "blue.webm.mp4")
	green := shot{"lime", "640x360", "30000/1001", 2, 880}.clip(t, folder, "green.mp4")
	music := filepath.Join(folder, "music.mp3")
	ffmpeg(t, "-f", "lavfi", "-i", "sine=f=1500:d=1", music)

	t.Run("CutsClipsOfDifferentKinds", func(t *testing.T) {
		t.Parallel()

		d := join(t, `{}`, "", red, blue, green)

		require.Equal(t, "h264,320,180,24/1,132", d.probed(t), "2 s, 1.5 s and 2 s at 24 frames per second")
		require.Greater(t, d.colour(t, 1.9)[0], 200)
		middle := d.colour(t, 2.1)
		require.Less(t, middle[0], 40)
		require.Greater(t, middle[2], 60, "blue between black bars")
		require.Greater(t, d.colour(t, 3.7)[1], 200)
		require.Greater(t, d.loudness(t, 440, 0.2, 1.8), 0.05)
		require.Less(t, d.loudness(t, 440, 2.2, 3.3), 0.001, "the clip without sound is silent")
		require.Greater(t, d.loudness(t, 880, 3.7, 5.3), 0.05)
		require.FileExists(t, d.thumbnail)
		last := d.reports[len(d.reports)-1]
		require.Equal(t, "ENCODING", last.Phase)
		require.Greater(t, *last.Percent, 50.0)
	})

	t.Run("FadesBetweenClips", func(t *testing.T) {
		t.Parallel()

		d := join(t, `{"crossfadeSeconds": 0.5, "width": 160, "fps": 10}`, "", red, blue, green)

		require.Equal(t, "h264,160,90,10/1,45", d.probed(t), "5.5 s less two cross-fades of 0.5 s")
		between := d.colour(t, 1.8)
		require.InDelta(t, 120, between[0], 80, "neither red nor blue")
		require.Greater(t, between[2], 10)
		require.Greater(t, d.colour(t, 1.2)[0], 200)
		require.Less(t, d.colour(t, 2.2)[0], 40)
		require.Greater(t, d.loudness(t, 880, 2.8, 4.2), 0.05)
	})

	t.Run("LaysMusicUnderTheVideo", func(t *testing.T) {
		t.Parallel()

		d := join(t, `{"musicVolume": 1}`, music, red, blue)

		require.Equal(t, "h264,320,180,24/1,84", d.probed(t))
		require.Greater(t, d.loudness(t, 440, 0.2, 1.8), 0.05)
		require.Greater(t, d.loudness(t, 1500, 0.2, 0.8), 0.05)
		require.Greater(t, d.loudness(t, 1500, 1.2, 1.8), 0.05, "it is repeated")
	})

	t.Run("LeavesOutSound", func(t *testing.T) {
		t.Parallel()

		require.False(t, join(t, `{"muted": true}`, "", red).sounds(t))
		require.False(t, join(t, `{}`, "", blue).sounds(t))
	})

	t.Run("RefusesWhatCannotBeJoined", func(t *testing.T) {
		t.Parallel()
		secret := filepath.Join(folder, "secret.txt")
		require.NoError(t, os.WriteFile(secret, []byte("a secret"), 0o600))
		playlist := filepath.Join(folder, "playlist")
		require.NoError(t, os.WriteFile(playlist, []byte("#EXTM3U\n#EXTINF:1,\nfile://"+red+"\n"), 0o600))
		list := filepath.Join(folder, "list")
		require.NoError(t, os.WriteFile(list, []byte("ffconcat version 1.0\nfile red.mp4\n"), 0o600))

		webm := filepath.Join(folder, "whole.webm")
		ffmpeg(t, "-i", red, "-c:v", "libvpx", webm)

		for says, d := range map[string]done{
			"Clip 2 cannot be used: it is cut short: its header says 2.00 s": join(t, `{}`, "", blue,
				cut(t, red, "-movflags", "+faststart", "-c", "copy")),
			"Clip 1 cannot be used: it is cut short": join(t, `{}`, "", cut(t, webm, "-c", "copy")),
			"names 0":                                join(t, `{}`, ""),
			"Clip 2 cannot be used":                  join(t, `{}`, "", red, secret),
			"Clip 1 cannot be used":                  join(t, `{}`, "", playlist),
			"it is not a file":                       join(t, `{}`, "", list),
			"it has no video":                        join(t, `{}`, "", music),
			"The music cannot be used":               join(t, `{}`, blue, red),
			"cross-fade of 1 s":                      join(t, `{"crossfadeSeconds": 1}`, "", red, blue),
		} {
			require.ErrorContains(t, d.err, says)
			reported := d.reports[len(d.reports)-1].Error
			require.NotNil(t, reported, says)
			require.Equal(t, "INVALID_INPUT", reported.Class)
			require.NotContains(t, reported.Message, folder, "a message must not show paths of the worker")
		}
	})

	t.Run("EndsWhenItIsCancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		path := filepath.Join(t.TempDir(), "job.json")
		data, err := json.Marshal(program.Job{Inputs: map[string]string{"clips.0": red},
			Outputs: map[string]string{"video": "v.mp4", "thumbnail": "t.webp"}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		var out bytes.Buffer

		require.ErrorIs(t, stitch.Main(ctx, path, &out), context.Canceled)

		require.NotContains(t, out.String(), "INVALID_INPUT")
	})
}
