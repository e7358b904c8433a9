package quality_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// shape is the form of one video.
type shape struct {
	w, h, fps int
	seconds   float64
	webm      bool
	quality   int // of the encoder: the constant rate factor
	preset    string
	faststart bool
	rng       *rand.Rand
}

func newShape(rng *rand.Rand) shape {
	size := pick(rng, [2]int{160, 90}, [2]int{256, 144}, [2]int{320, 180}, [2]int{426, 240}, [2]int{180, 320}, [2]int{240, 240})
	return shape{
		w: size[0], h: size[1], fps: pick(rng, 12, 16, 24, 25, 30), seconds: pick(rng, 1.5, 2, 2.5, 3, 4, 5),
		webm: rng.IntN(4) == 0, quality: 18 + rng.IntN(12), preset: pick(rng, "ultrafast", "veryfast", "fast"),
		faststart: rng.IntN(2) == 0, rng: rng,
	}
}

func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

// in formats a part of a filter graph, in which {w}, {h}, {r} and {d} are the width, the
// height, the frame rate and the length.
func (s shape) in(format string, args ...any) string {
	return strings.NewReplacer("{w}", fmt.Sprint(s.w), "{h}", fmt.Sprint(s.h), "{r}", fmt.Sprint(s.fps), "{d}", fmt.Sprint(s.seconds)).
		Replace(fmt.Sprintf(format, args...))
}

func (s shape) expect() quality.Expect {
	return quality.Expect{DurationSeconds: s.seconds, Width: s.w, Height: s.h, FPS: float64(s.fps)}
}

// example is one video of a corpus.
type example struct {
	shape
	class  string       // what it shows
	want   quality.Code // empty: a good video
	graph  string       // of the pictures
	audio  string       // graph of the sound, or empty
	late   float64      // seconds by which the sound begins late
	after  func(path string) error
	expect quality.Expect
}

// build makes the video.
func (e example) build(ctx context.Context, path string) error {
	if e.graph != "" {
		if out, err := ffmpeg(ctx, e.arguments(path)...); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	if e.after != nil {
		return e.after(path)
	}
	return nil
}

func (e example) arguments(path string) []string {
	args := []string{"-v", "error", "-nostdin", "-y", "-threads", "1", "-filter_complex_threads", "1", "-f", "lavfi", "-i", e.graph}
	if e.audio != "" {
		if e.late > 0 {
			args = append(args, "-itsoffset", fmt.Sprint(e.late))
		}
		args = append(args, "-f", "lavfi", "-i", e.audio, "-map", "0:v", "-map", "1:a")
	}
	args = append(args, "-pix_fmt", "yuv420p", "-threads", "1")
	if e.webm {
		args = append(args, "-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-crf", fmt.Sprint(e.quality+10), "-b:v", "0",
			"-c:a", "libopus", "-f", "webm")
	} else {
		args = append(args, "-c:v", "libx264", "-preset", e.preset, "-crf", fmt.Sprint(e.quality), "-c:a", "aac", "-f", "mp4")
		if e.faststart {
			args = append(args, "-movflags", "+faststart")
		}
	}
	limit := e.seconds
	if e.audio != "" {
		limit *= 3 // the graphs end by themselves: sound may be longer than the pictures
	}
	return append(args, "-t", fmt.Sprint(limit), path)
}

func ffmpeg(ctx context.Context, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, "ffmpeg", args...).CombinedOutput()
}

// verdicts counts verdicts by class.
type verdicts map[string]map[string]int

func (v verdicts) add(class, code string) {
	if v[class] == nil {
		v[class] = map[string]int{}
	}
	v[class][code]++
}

func (v verdicts) String() string {
	var b strings.Builder
	for _, class := range slices.Sorted(maps.Keys(v)) {
		fmt.Fprintf(&b, "%-34s", class)
		for _, code := range slices.Sorted(maps.Keys(v[class])) {
			fmt.Fprintf(&b, " %s %d", code, v[class][code])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// judgeAll builds and checks all examples. It requires that at least this percentage of
// the defects is caught and at most 1 % of the good videos is refused.
func judgeAll(t *testing.T, examples []example, least int) {
	dir := t.TempDir()
	var mu sync.Mutex
	table, caught, defects, alarms, good, other := verdicts{}, 0, 0, 0, 0, 0
	var misses []string
	todo := make(chan int)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for i := range todo {
				e := examples[i]
				path := filepath.Join(dir, fmt.Sprintf("%d.video", i))
				var report *quality.Report
				err := e.build(t.Context(), path)
				if err == nil {
					report, err = quality.Check(t.Context(), path, e.expect)
				}
				os.Remove(path)
				mu.Lock()
				code, detail := "good", ""
				switch {
				case err != nil:
					code, detail = "error", err.Error()
				case report.Defect != nil:
					code, detail = string(report.Defect.Code), report.Defect.Message
				}
				table.add(e.class, code)
				if e.want == "" {
					good++
					if code != "good" {
						alarms++
					}
				} else {
					defects++
					if code != "good" && code != "error" {
						caught++
					}
				}
				if e.want == "" && code != "good" || e.want != "" && (code == "good" || code == "error") {
					misses = append(misses, fmt.Sprintf("%d %s: %s %s %+v\n  %s", i, e.class, code, detail, report, e.arguments("FILE")))
				} else if e.want != "" && code != string(e.want) {
					other++
				}
				mu.Unlock()
			}
		})
	}
	for i := range examples {
		todo <- i
	}
	close(todo)
	workers.Wait()
	t.Logf("\n%s\n%d of %d defects caught, %d of them under another code; %d of %d good videos refused\n%s",
		table, caught, defects, other, alarms, good, strings.Join(misses, "\n"))
	require.GreaterOrEqual(t, 100*caught, least*defects, "defects caught")
	require.LessOrEqual(t, 100*alarms, good, "good videos refused")
}

// tenth returns nearly every tenth example, or all in a nightly run.
func tenth(all []example) []example {
	if testrun.Nightly() {
		return all
	}
	var some []example
	for i := 0; i < len(all); i += 13 { // odd, because good and bad ones alternate
		some = append(some, all[i])
	}
	return some
}

func TestCheck(t *testing.T) {
	t.Parallel()

	t.Run("TellsDefectsFromGoodVideos", func(t *testing.T) {
		t.Parallel()
		judgeAll(t, tenth(corpus(1, goodSources, 220)), 99)
	})

	if !testrun.Nightly() { // one corpus is enough for a short run
		return
	}
	t.Run("TellsDefectsFromGoodVideosOfOtherKinds", func(t *testing.T) {
		t.Parallel()
		// Some freezes of little more than a second are missed after a coarse encoder, which
		// repairs the frozen picture for nearly as long.
		judgeAll(t, append(corpus(1_000_003, otherSources, 210), corpus(7777, goodSources, 110)...), 97)
	})
}

// corpus makes n good videos and at least as many defects of them.
func corpus(seed uint64, sources []source, n int) []example {
	var all []example
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		s := newShape(rng)
		from := sources[i%len(sources)]
		e := example{shape: s, class: "good/" + from.name, graph: from.graph(s), expect: s.expect()}
		if i%5 == 0 {
			sounds(&e, s.music())
		}
		all = append(all, e)

		rng = rand.New(rand.NewPCG(seed+1, uint64(i)))
		s = newShape(rng)
		base := sources[rng.IntN(len(sources))]
		// Each fault meets each source over time.
		d := faults[i%len(faults)]
		e = example{shape: s, class: "bad/" + d.name, want: d.code, graph: base.graph(s), expect: s.expect()}
		d.spoil(&e)
		all = append(all, e)
	}
	return all
}
