package quality_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/reelay/reelay/gpu/quality"
)

// fault turns a good example into a defect.
type fault struct {
	name  string
	code  quality.Code
	spoil func(*example)
}

// from returns a time in the middle of the video.
func (s shape) from() float64 { return s.seconds * (0.25 + 0.35*s.rng.Float64()) }

func then(filter string, args ...any) func(*example) {
	return func(e *example) { e.graph += "," + e.in(filter, args...) }
}

// ending fills the frames with a colour from some time on.
func ending(colour func(shape) string) func(*example) {
	return func(e *example) {
		e.graph += fmt.Sprintf(",drawbox=t=fill:color=%s:enable='gte(t,%.3f)'", colour(e.shape), e.from())
	}
}

func fixed(colour string) func(shape) string { return func(shape) string { return colour } }

// noise lays blocks of noise over the frames from some time on.
func noise(block func(shape) int) func(*example) {
	return func(e *example) {
		b := block(e.shape)
		e.graph = e.in("%s[video];nullsrc=s=%dx%d:r={r},geq=lum='random(1)*255':cb='random(2)*255':cr='random(3)*255',scale={w}:{h}:flags=neighbor[noise];"+
			"[video][noise]overlay=shortest=1:enable='gte(t,%.3f)'", e.graph, max(2, e.w/b), max(2, e.h/b), e.from())
	}
}

// freeze repeats one frame until the end, for more than a second.
func freeze(e *example) {
	e.seconds = max(e.seconds, 2.5)
	e.expect.DurationSeconds = e.seconds
	then("loop=-1:1:%d,setpts=N/({r}*TB)", int(e.seconds*(0.2+0.35*e.rng.Float64())*float64(e.fps)))(e)
}

// cut truncates the file to a part of its length.
func cut(least, most float64) func(*example) {
	return func(e *example) {
		part := least + (most-least)*e.rng.Float64()
		e.after = func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, int64(part*float64(info.Size())))
		}
	}
}

// holding replaces the file by some bytes.
func holding(make func(*rand.Rand) []byte) func(*example) {
	return func(e *example) {
		e.graph = ""
		data := make(e.rng)
		e.after = func(path string) error { return os.WriteFile(path, data, 0o600) }
	}
}

func sounds(e *example, audio string) {
	e.expect.Audio = true
	e.audio = audio
	e.graph += e.in(",trim=duration={d}")
}

var faults = []fault{
	{"black", quality.Black, then("lutyuv=y=16:u=128:v=128")},
	{"black with noise", quality.Black, func(e *example) {
		e.graph = e.in("color=%s:s={w}x{h}:r={r},%s", e.colour(0, 3), e.grain(2+e.rng.IntN(4)))
	}},
	{"frozen from the start", quality.Frozen, then("trim=end_frame=1,loop=-1:1:0,setpts=N/({r}*TB)")},
	{"frozen from the middle", quality.Frozen, freeze},
	{"frozen from the middle", quality.Frozen, freeze},
	{"frozen for a while", quality.Frozen, func(e *example) {
		then("loop=%d:1:%d,setpts=N/({r}*TB)", int(max(1.2, 0.55*e.seconds)*float64(e.fps)), e.fps/4)(e)
	}},
	{"green end", quality.CorruptFrames, ending(fixed("0x008700"))},
	{"grey end", quality.CorruptFrames, ending(fixed("0x808080"))},
	{"black end", quality.CorruptFrames, ending(fixed("black"))},
	{"coloured end", quality.CorruptFrames, ending(func(s shape) string { return s.colour(30, 220) })},
	{"noise at the end", quality.CorruptFrames, noise(func(shape) int { return 1 })},
	{"blocks of noise at the end", quality.CorruptFrames, noise(func(s shape) int { return pick(s.rng, 4, 8) })},
	{"truncated early", quality.Truncated, cut(0.02, 0.3)},
	{"truncated in the middle", quality.Truncated, cut(0.3, 0.8)},
	{"truncated late", quality.Truncated, cut(0.8, 0.995)},
	{"bytes overwritten", quality.CorruptFrames, func(e *example) {
		e.webm = false
		seed := e.rng.Uint64()
		e.after = func(path string) error {
			data, err := os.ReadFile(path)
			at := bytes.Index(data, []byte("mdat"))
			rng := rand.New(rand.NewPCG(seed, 1))
			for range 40 {
				data[at+200+rng.IntN((len(data)-at)/2)] = byte(rng.Uint32())
			}
			if err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
			return err
		}
	}},
	{"wrong rate", quality.WrongFPS, func(e *example) { e.expect.FPS *= pick(e.rng, 0.5, 0.8, 1.04, 1.25, 2) }},
	{"wrong size", quality.WrongSize, func(e *example) {
		e.expect.Width, e.expect.Height = pick(e.rng, e.w*2, e.w+2, e.h), pick(e.rng, e.h*2, e.h+2, e.w+4)
	}},
	{"wrong length", quality.WrongDuration, func(e *example) { e.expect.DurationSeconds *= pick(e.rng, 0.5, 0.75, 1.4, 2, 4) }},
	{"no sound", quality.NoAudio, func(e *example) { e.expect.Audio = true }},
	{"silent", quality.Silent, func(e *example) { sounds(e, e.in("anullsrc=r=%d:d={d}", pick(e.rng, 44100, 48000))) }},
	{"constant sound", quality.Silent, func(e *example) {
		e.webm = false
		sounds(e, e.in("aevalsrc=0:d={d}:s=48000:c=stereo"))
	}},
	{"short sound", quality.AudioDrift, func(e *example) {
		sounds(e, e.music()+fmt.Sprintf(",atrim=duration=%.3f", e.seconds*(0.3+0.45*e.rng.Float64())))
	}},
	{"drifting sound", quality.AudioDrift, func(e *example) {
		e.seconds, e.expect.DurationSeconds = 4, 4
		sounds(e, e.music()+fmt.Sprintf(",atempo=%.3f", pick(e.rng, 0.75, 0.88, 1.12, 1.25)))
	}},
	{"late sound", quality.AudioDrift, func(e *example) {
		sounds(e, e.music())
		e.late = 0.5 + e.rng.Float64()
	}},
	{"single colour", quality.SingleColour, func(e *example) {
		e.graph = e.in("color=%s:s={w}x{h}:r={r}", e.colour(40, 255))
		if e.rng.IntN(2) == 0 {
			e.graph += "," + e.grain(2+e.rng.IntN(3))
		}
	}},
	{"empty", quality.Undecodable, holding(func(*rand.Rand) []byte { return nil })},
	{"text", quality.Undecodable, holding(func(r *rand.Rand) []byte {
		return bytes.Repeat([]byte(pick(r, "Internal Server Error\n", "<html><body>502</body></html>",
			"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\nfile:///etc/passwd\n", "{}", "Traceback (most recent call last):\n")), 1+r.IntN(400))
	})},
	{"random bytes", quality.Undecodable, holding(func(r *rand.Rand) []byte {
		data := make([]byte, 1+r.IntN(100_000))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		return data
	})},
	{"header only", quality.Undecodable,
		holding(func(*rand.Rand) []byte { return []byte("\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41") })},
}
