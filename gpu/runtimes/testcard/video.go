package testcard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// video is the requested video.
type video struct {
	prompt, style string
	frames, fps   int
	width, height int
	seed          uint64
	pace          float64 // seconds of work per second of video
	// begins is true if the video begins from a picture, which Render reads.
	begins  bool
	picture *backdrop
}

// idea returns the text and numbers from which the video is drawn.
func (f video) idea() string {
	if f.style == "" {
		return f.prompt
	}
	return f.prompt + "\x00" + f.style
}

// seconds returns the video's exact length, a whole number of frames.
func (f video) seconds() float64 { return float64(f.frames) / float64(f.fps) }

// parseVideo checks params and fills in the defaults. The error says which of them
// are wrong, their values, and which values are allowed.
func parseVideo(prompt string, params json.RawMessage) (video, error) {
	p, err := parseParams(params)
	if err != nil {
		return video{}, err
	}
	duration, err1 := number(p, "durationSeconds", "0.5", "60")
	fps, err2 := integer(p, "fps", "1", "60")
	seed, err3 := integer(p, "seed", "0", "9007199254740992")
	pace, err4 := number(p, "pace", "0", "600")
	width, height, err5 := size(p["size"].(string), p["resolution"].(string), p["aspectRatio"].(string))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return video{}, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}

	f := video{prompt: prompt, style: p["style"].(string), fps: int(fps.Num().Int64()), seed: seed.Num().Uint64(), width: width,
		height: height}
	f.pace, _ = pace.Float64()
	f.begins = p["referenceImage"] != ""
	half := big.NewRat(1, 2)
	exact := new(big.Rat).Add(duration.Mul(duration, fps), half)
	f.frames = int(new(big.Int).Quo(exact.Num(), exact.Denom()).Int64())
	return f, nil
}

// parseParams returns all params, each of its own type: a json.Number or a string.
func parseParams(params json.RawMessage) (map[string]any, error) {
	p := map[string]any{
		"durationSeconds": json.Number("4"), "fps": json.Number("24"), "seed": json.Number("0"), "pace": json.Number("1"),
		"resolution": "480p", "aspectRatio": "16:9", "size": "", "style": "", "referenceImage": "",
	}
	if len(params) == 0 {
		return p, nil
	}
	var given map[string]any
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber()
	if err := decoder.Decode(&given); err != nil || given == nil {
		return nil, fmt.Errorf("the params are %.80s; they must be an object", params)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, known := p[name]
		if !known {
			return nil, fmt.Errorf("%.80q is not a parameter of this model", name)
		}
		if want := kind(value); kind(given[name]) != want {
			return nil, fmt.Errorf("%s must be a %s", name, want)
		}
		p[name] = given[name]
	}
	return p, nil
}

func kind(value any) string {
	switch value.(type) {
	case json.Number:
		return "number"
	case string:
		return "string"
	}
	return "something else"
}

// number reads a JSON number exactly.
func number(params map[string]any, name, low, high string) (*big.Rat, error) {
	n := params[name].(json.Number)
	wrong := fmt.Errorf("%s is %.40s; it must be from %s to %s", name, n, low, high)
	// A Rat of 1e-999999999 would exhaust the memory.
	_, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if power, err := strconv.Atoi(exponent); exponent != "" && (err != nil || power < -30 || power > 30) || len(n) > 60 {
		return nil, wrong
	}
	value, ok := new(big.Rat).SetString(string(n))
	least, _ := new(big.Rat).SetString(low)
	most, _ := new(big.Rat).SetString(high)
	if !ok || value.Cmp(least) < 0 || value.Cmp(most) > 0 {
		return nil, wrong
	}
	return value, nil
}

func integer(params map[string]any, name, low, high string) (*big.Rat, error) {
	value, err := number(params, name, low, high)
	if err == nil && !value.IsInt() {
		return nil, fmt.Errorf("%s is %v; it must be a whole number", name, params[name])
	}
	return value, err
}

// size returns the frame size given by pixels, or if that is empty, by resolution
// and aspect ratio.
func size(pixels, resolution, aspectRatio string) (width, height int, err error) {
	switch pixels {
	case "":
	case "720x1280", "1280x720", "1024x1792", "1792x1024", "1080x1920", "1920x1080":
		_, err := fmt.Sscanf(pixels, "%dx%d", &width, &height)
		return width, height, err
	default:
		return 0, 0, fmt.Errorf("size is %q; it must be 720x1280, 1280x720, 1024x1792, 1792x1024, 1080x1920 or 1920x1080", pixels)
	}
	long, short := 0, 0
	switch resolution {
	case "480p":
		long, short = 854, 480
	case "720p":
		long, short = 1280, 720
	case "1080p":
		long, short = 1920, 1080
	default:
		return 0, 0, fmt.Errorf("resolution is %q; it must be 480p, 720p or 1080p", resolution)
	}
	switch aspectRatio {
	case "16:9":
		return long, short, nil
	case "9:16":
		return short, long, nil
	case "1:1":
		return short, short, nil
	}
	return 0, 0, fmt.Errorf("aspectRatio is %q; it must be 16:9, 9:16 or 1:1", aspectRatio)
}

// fingerprint identifies the video to which a checkpoint belongs. It leaves out the
// pace, which changes no frame.
func (f video) fingerprint() [sha256.Size]byte {
	video := fmt.Appendf(nil, "testcard 1 %d %d %d %d %d %s", f.frames, f.fps, f.width, f.height, f.seed, f.idea())
	if f.picture != nil {
		video = fmt.Appendf(video, "\x00%x", f.picture.sum)
	}
	return sha256.Sum256(video)
}

// random returns a generator seeded by prompt, seed and purpose.
func (f video) random(purpose string) *rand.PCG {
	sum := sha256.Sum256(fmt.Appendf(nil, "testcard 1 %s %d %s", purpose, f.seed, f.idea()))
	return rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
}
