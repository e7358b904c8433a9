package agent

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"

	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// checkedJob queues a job whose video must be checked.
func checkedJob(c *control, _ *model) { jobOf(c, "VIDEO", nil) }

// jobOf queues a job of a model that makes this product.
func jobOf(c *control, produces string, quality any) {
	l := lease()
	l["model"] = object{"version": 1, "produces": produces, "quality": quality}
	c.leases = append(c.leases, l)
}

// delivery writes the file that a runtime delivers.
type delivery func(t *testing.T, path string)

func holding(text string) delivery {
	return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
}

// showing makes a video of two seconds at the rate of the graph.
func showing(graph string) delivery {
	return func(t *testing.T, path string) {
		out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", graph, "-t", "2",
			"-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "ultrafast", path).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// deliver has the runtime deliver a file, and waits for the agent to deal with it.
func (f *fixture) deliver(t *testing.T, what delivery) {
	order := <-f.model.started
	path := file(t, order, "video.mp4")
	what(t, path)
	f.model.messages <- &runtime.Result{Video: path}
	synctest.Wait()
}

func TestCheck(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		what  delivery
		cause string
		// frames is how many frames show the defect.
		frames int
	}{
		"BlackVideo":   {showing("color=black:s=64x64:r=24"), "BLACK: 100 % of the frames are black", 2},
		"TextFile":     {holding("Internal Server Error\n"), "UNDECODABLE: The file of 22 bytes", 0},
		"EmptyFile":    {holding(""), "UNDECODABLE: The video file has 0 bytes.", 0},
		"AnotherRate":  {showing("testsrc2=s=64x64:r=12"), "WRONG_FPS: The video has 12 frames per second; 24 were asked for.", 2},
		"FrozenFrames": {showing("testsrc2=s=64x64:r=24,loop=-1:1:0"), "FROZEN: The same picture is shown", 2},
	} {
		t.Run("FailsTheAttempt/"+name, func(t *testing.T) {
			t.Parallel()
			story(t, checkedJob, func(t *testing.T, f *fixture) {
				f.deliver(t, c.what)

				require.Empty(t, f.of("completeJob"))
				failed := f.of("failJob")
				require.Len(t, failed, 1)
				require.Equal(t, "DEFECTIVE_RESULT", failed[0].in["class"])
				require.Contains(t, failed[0].in["message"], c.cause)
				for _, upload := range f.of("requestUpload") {
					require.NotEqual(t, "FINAL_VIDEO", upload.in["type"], "a defective video must not be uploaded")
				}
				frames := f.of("commitArtifact")
				require.Len(t, frames, c.frames)
				for _, frame := range frames {
					require.Equal(t, "EVIDENCE", frame.in["artifactType"])
					require.Equal(t, "image/jpeg", frame.in["object"].(map[string]any)["contentType"])
				}
				require.Contains(t, drain(f.model.orders), "kill", "the next job must have a new runtime")
			})
		})
	}

	t.Run("DeliversAGoodVideo", func(t *testing.T) {
		t.Parallel()
		story(t, checkedJob, func(t *testing.T, f *fixture) {
			f.deliver(t, showing("testsrc2=s=64x64:r=24"))

			require.Len(t, f.of("completeJob"), 1)
		})
	})

	for name, prepare := range map[string]func(*control, *model){
		"ThatMakesNoVideo":       func(c *control, _ *model) { jobOf(c, "OUTPUT", nil) },
		"WhoseEntryLeavesItOut":  func(c *control, _ *model) { jobOf(c, "VIDEO", object{"check": false}) },
		"ThatIsNoLongerInTheAPI": oneJob,
	} {
		t.Run("DeliversUncheckedForAModel"+name, func(t *testing.T) {
			t.Parallel()
			story(t, prepare, func(t *testing.T, f *fixture) {
				f.deliver(t, holding("a chain of hashes"))

				require.Len(t, f.of("completeJob"), 1)
			})
		})
	}
}

func TestCheckFollowsTheModel(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		what    delivery
		quality object
	}{
		"AllowsDarkVideos":  {showing("color=black:s=64x64:r=24,noise=alls=2:allf=t"), object{"allowDark": true, "allowStill": true}},
		"AllowsStillVideos": {showing("testsrc2=s=64x64:r=24,loop=-1:1:0"), object{"allowStill": true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, func(c2 *control, _ *model) { jobOf(c2, "VIDEO", c.quality) }, func(t *testing.T, f *fixture) {
				f.deliver(t, c.what)

				require.Len(t, f.of("completeJob"), 1)
			})
		})
	}
	t.Run("HasLimitsOfItsOwn", func(t *testing.T) {
		t.Parallel()
		story(t, func(c *control, _ *model) { jobOf(c, "VIDEO", object{"blackShare": 0.2}) }, func(t *testing.T, f *fixture) {
			f.deliver(t, showing("testsrc2=s=64x64:r=24,drawbox=t=fill:color=black:enable='lt(t,0.5)'"))

			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Contains(t, failed[0].in["message"], "BLACK: 25 %")
		})
	})
}

// Not parallel: PATH belongs to the whole process.
func TestCheckWithoutFFmpeg(t *testing.T) {
	t.Setenv("PATH", t.TempDir())

	t.Run("FailsTheAttempt", func(t *testing.T) {
		story(t, checkedJob, func(t *testing.T, f *fixture) {
			f.deliver(t, holding("a video"))

			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Equal(t, "MODEL_CRASH", failed[0].in["class"])
			require.Contains(t, failed[0].in["message"], "install ffmpeg")
		})
	})

	t.Run("DeliversUncheckedIfTheGateIsOff", func(t *testing.T) {
		story(t, checkedJob, func(t *testing.T, f *fixture) {
			f.deliver(t, holding("a video"))

			require.Len(t, f.of("completeJob"), 1)
		}, func(c *Config) { c.UncheckedVideos = true })
	})
}

func TestAsked(t *testing.T) {
	t.Parallel()

	for params, expected := range map[string]quality.Expect{
		`{"durationSeconds":4,"fps":24,"resolution":"720p"}`:             {DurationSeconds: 4, FPS: 24, ShortSide: 720},
		`{"size":"1280x720","resolution":"480p"}`:                        {Width: 1280, Height: 720},
		`{"width":832,"height":480,"resolution":"480p"}`:                 {Width: 832, Height: 480},
		`{"resolution":"4K","audio":true,"allowDark":true,"fps":"fast"}`: {ShortSide: 2160, Audio: true, AllowDark: true},
		`{"resolution":"large","audio":"music.mp3","allowStill":true}`:   {AllowStill: true},
		`null`: {},
	} {
		require.Equal(t, expected, asked(json.RawMessage(params)), params)
	}
}
