package agent

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// framed leases a job that starts from frames of the video at path.
func framed(t *testing.T, video []byte) func(*control, *model) {
	t.Helper()
	sum, size, err := client.Checksum(bytes.NewReader(video))
	require.NoError(t, err)
	return func(c *control, _ *model) {
		input := object{"id": "art_1", "contentType": "video/mp4", "sizeBytes": size, "checksum": sum, "url": "http://store/art_1"}
		granted := lease()
		granted["inputs"], granted["inputNames"] = []object{input, input, input, input}, []string{"referenceImage", "clips.0", "logos.0",
			"logos.1"}
		granted["inputFrames"] = []any{"LAST", nil, "FIRST", "LAST"}
		c.leases = append(c.leases, granted)
		c.stored["/art_1"] = string(video)
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "video.mp4")
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i",
		"color=c=black:s=32x32:r=10,format=gray,geq=lum='40+20*N',format=yuv420p", "-frames:v", "8", "-c:v", "libx264", "-qp", "0",
		path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	video, err := os.ReadFile(path)
	require.NoError(t, err)

	t.Run("AreMadeBeforeTheRuntimeStarts", func(t *testing.T) {
		t.Parallel()
		story(t, framed(t, video), func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Equal(t, map[string]string{
				"referenceImage": filepath.Join(order.Workdir, "input-0.mp4.last.png"),
				"clips.0":        filepath.Join(order.Workdir, "input-0.mp4"),
				"logos.0":        filepath.Join(order.Workdir, "input-0.mp4.first.png"),
				"logos.1":        filepath.Join(order.Workdir, "input-0.mp4.last.png"),
			}, order.Inputs)
			var shown []int
			for _, name := range []string{"logos.0", "referenceImage"} {
				file, err := os.Open(order.Inputs[name])
				require.NoError(t, err)
				picture, err := png.Decode(file)
				require.NoError(t, err)
				require.NoError(t, file.Close())
				r, _, _, _ := picture.At(16, 16).RGBA()
				shown = append(shown, int(r>>8))
			}
			require.InDelta(t, 40, shown[0], 3)
			require.InDelta(t, 180, shown[1], 3)
			f.model.messages <- &runtime.Result{}
			synctest.Wait()
		})
	})

	t.Run("OfAVideoThatCannotBeDecodedAreTheJobsFault", func(t *testing.T) {
		t.Parallel()
		story(t, framed(t, video[:len(video)/2]), func(t *testing.T, f *fixture) {
			failed := f.failure(t)

			require.Equal(t, "INVALID_INPUT", failed["class"])
			require.Contains(t, failed["message"], "The video of the input referenceImage cannot be decoded")
		})
	})
}

// failure waits for the end of an attempt whose runtime does not start.
func (f *fixture) failure(t *testing.T) object {
	t.Helper()
	for len(f.of("failJob")) == 0 {
		time.Sleep(time.Second) // of synctest's clock: it passes while the programs run
	}
	require.Empty(t, f.model.started)
	return f.of("failJob")[0].in
}

// Not parallel: PATH belongs to the whole process.
func TestFramesWithoutFFmpeg(t *testing.T) {
	t.Setenv("PATH", t.TempDir())

	story(t, framed(t, []byte("a video")), func(t *testing.T, f *fixture) {
		failed := f.failure(t)

		require.Equal(t, "TRANSIENT", failed["class"])
		require.Contains(t, failed["message"], "install ffmpeg")
	})
}

func TestInputs(t *testing.T) {
	t.Parallel()

	sum, size, err := client.Checksum(strings.NewReader("picture"))
	require.NoError(t, err)
	queued := func(stored string) func(*control, *model) {
		return func(c *control, _ *model) {
			granted := lease()
			granted["inputs"] = []object{
				{"id": "art_1", "contentType": "image/png", "sizeBytes": size, "checksum": sum, "url": "http://store/art_1"},
				{"id": "art_2", "contentType": "video/mp4", "sizeBytes": size, "checksum": sum, "url": "http://store/art_2"},
				{"id": "art_2", "contentType": "video/mp4", "sizeBytes": size, "checksum": sum, "url": "http://store/art_2"},
				{"id": "art_3", "contentType": "video/odd", "sizeBytes": size, "checksum": sum, "url": "http://store/art_3"},
			}
			granted["inputNames"] = []string{"referenceImage", "clips.0", "clips.1", "../../clips.2"}
			c.leases = append(c.leases, granted)
			c.stored["/art_1"], c.stored["/art_2"], c.stored["/art_3"] = "picture", stored, "picture"
		}
	}

	t.Run("AreFilesOfTheWorkdirWhenTheRuntimeStarts", func(t *testing.T) {
		t.Parallel()
		story(t, queued("picture"), func(t *testing.T, f *fixture) {
			order := <-f.model.started

			require.Equal(t, map[string]string{
				"referenceImage": filepath.Join(order.Workdir, "input-0.png"),
				"clips.0":        filepath.Join(order.Workdir, "input-1.mp4"),
				"clips.1":        filepath.Join(order.Workdir, "input-1.mp4"),
				"../../clips.2":  filepath.Join(order.Workdir, "input-3"),
			}, order.Inputs)
			for _, path := range order.Inputs {
				require.FileExists(t, path)
			}
			f.model.messages <- &runtime.Result{}
			synctest.Wait()
		})
	})

	t.Run("ThatAreNotWholeEndTheAttempt", func(t *testing.T) {
		t.Parallel()
		story(t, queued("pictures"), func(t *testing.T, f *fixture) {
			synctest.Wait()

			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Equal(t, "TRANSIENT", failed[0].in["class"])
			require.Contains(t, failed[0].in["message"], "the input clips.0")
			require.Empty(t, f.model.started)
		})
	})
}
