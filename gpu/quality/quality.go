package quality

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMissing means that ffprobe or ffmpeg is not installed on this host.
	ErrMissing = errors.New("ffmpeg and ffprobe are needed to read a video: install ffmpeg (apt-get install ffmpeg, or brew install ffmpeg)")
	// ErrTooSlow means that the check was not done within its time limit: a minute
	// and ten times the length of the video.
	ErrTooSlow = errors.New("the video could not be decoded in time")
)

// Expect is what was asked of a video. A zero field is not checked.
type Expect struct {
	DurationSeconds float64
	Width, Height   int
	// ShortSide is the number of pixels of the shorter side, as in 720p. It may differ
	// by 16, because models render multiples of 16.
	ShortSide int
	FPS       float64
	Audio     bool // the video must have sound
	// AllowDark accepts black pictures, AllowStill pictures that do not move.
	AllowDark, AllowStill bool
	Thresholds            Thresholds
}

// Thresholds are the limits between a good video and a defect. A zero field has the
// default, which is given in brackets. Brightness is from 0 to 255.
type Thresholds struct {
	// FrozenSeconds is how long the same picture may be repeated [3]. In a video
	// of less than 10 s it is 30 % of the length, but at least a second, or 80 % of a
	// video of less than 1.25 s.
	FrozenSeconds float64
	// BlackShare is the share of black frames that makes a video black [0.8].
	BlackShare float64
	// FlatShare is the share of frames of one colour that makes a video of a single colour [0.9].
	FlatShare float64
	// BlackBrightness is the highest mean brightness of a black frame [18].
	BlackBrightness float64
	// FlatDeviation is the highest standard deviation of the brightness of large blocks
	// in a frame of one colour [1.5].
	FlatDeviation float64
	// SilentDB is the highest level of the loudest 50 ms of silent audio, in dBFS [-65].
	SilentDB float64
	// DriftSeconds is how much the beginning and the end of pictures and sound may differ
	// [0.25, or 1 % of the length].
	DriftSeconds float64
}

func (t Thresholds) withDefaults() Thresholds {
	t.FrozenSeconds = cmp.Or(t.FrozenSeconds, 3)
	t.BlackShare = cmp.Or(t.BlackShare, 0.8)
	t.FlatShare = cmp.Or(t.FlatShare, 0.9)
	t.BlackBrightness = cmp.Or(t.BlackBrightness, 18)
	t.FlatDeviation = cmp.Or(t.FlatDeviation, 1.5)
	t.SilentDB = cmp.Or(t.SilentDB, -65)
	t.DriftSeconds = cmp.Or(t.DriftSeconds, 0.25)
	return t
}

// Code names a kind of defect. The values are stable.
type Code string

const (
	Undecodable   Code = "UNDECODABLE"    // not an MP4 or WebM file with pictures that decode
	Truncated     Code = "TRUNCATED"      // the file ends before its header says
	WrongSize     Code = "WRONG_SIZE"     // another width or height
	WrongFPS      Code = "WRONG_FPS"      // another frame rate
	WrongDuration Code = "WRONG_DURATION" // another length
	Black         Code = "BLACK"          // black frames only, or nearly
	SingleColour  Code = "SINGLE_COLOUR"  // frames of one colour only, or nearly
	CorruptFrames Code = "CORRUPT_FRAMES" // frames do not decode, or turn to one colour or to noise until the end
	Frozen        Code = "FROZEN"         // the picture stands still
	NoAudio       Code = "NO_AUDIO"       // sound was asked for and there is no track
	Silent        Code = "SILENT"         // the track holds only silence
	AudioDrift    Code = "AUDIO_DRIFT"    // pictures and sound do not begin or end together
)

// Defect is why a video must not be delivered. Message is one sentence with the
// measured numbers, for people.
type Defect struct {
	Code    Code
	Message string
}

// Report is the result of a check.
type Report struct {
	Defect  *Defect // nil: the video is good
	Numbers Numbers
	// Evidence holds the times of two frames that show the defect, in seconds from
	// the start of the file. It is empty if no frame can be shown.
	Evidence []float64
}

// Numbers is what was measured.
type Numbers struct {
	Codec         string
	Width, Height int
	FPS           float64 // the average
	Seconds       float64 // from the first to the end of the last decoded frame
	HeaderSeconds float64 // the length that the header says, or 0
	Frames        int
	DecodeErrors  int     // lines that ffmpeg printed about errors
	Brightness    float64 // the mean, from 0 to 255
	BlackShare    float64 // of the frames
	FlatShare     float64 // the largest share of frames of the same colour
	FrozenSeconds float64 // the longest time without movement
	AudioSeconds  float64
	AudioStart    float64 // relative to the first frame, in seconds
	LoudestDB     float64 // the level of the loudest 50 ms, in dBFS
}

const (
	leastTime  = time.Minute
	timeFactor = 10
	maxLength  = time.Hour // a longer video gets no more time
)

// Check reports whether the video in the file at path is what was expected. Whatever
// is wrong with the file is a defect, not an error. The error is ErrMissing,
// ErrTooSlow, ctx's cause, or says why a process could not run.
func Check(ctx context.Context, path string, expect Expect) (*Report, error) {
	programs, err := findPrograms()
	if err != nil {
		return nil, err
	}
	expect.Thresholds = expect.Thresholds.withDefaults()
	probing, cancel := context.WithTimeoutCause(ctx, leastTime, ErrTooSlow)
	defer cancel()
	c, defect, err := probe(probing, programs.ffprobe, path)
	if err != nil {
		return nil, fmt.Errorf("probe the video: %w", err)
	}
	if defect == nil {
		c.cut = endsEarly(path)
		defect = c.compareSize(expect)
	}
	if defect != nil {
		return &Report{Defect: defect, Numbers: c.numbers()}, nil
	}
	length := time.Duration(max(expect.DurationSeconds, c.seconds, c.limit) * float64(time.Second))
	decoding, cancel := context.WithTimeoutCause(ctx, leastTime+timeFactor*min(length, maxLength), ErrTooSlow)
	defer cancel()
	m, err := decode(decoding, programs.ffmpeg, path, c, expect.Audio)
	if err != nil {
		return nil, fmt.Errorf("decode the video: %w", err)
	}
	return m.judge(expect), nil
}
