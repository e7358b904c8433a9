package stitch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
)

// clip is a file to join.
type clip struct {
	path          string
	width, height int // as shown, after rotation, with square pixels
	fps           float64
	look          look
	seconds       float64
	timed         bool // whether seconds is the length of the picture, and not of the whole file
	sound         bool
}

// look is how the numbers in a file become colours and pictures.
type look struct {
	transfer, primaries, matrix string // as ffprobe names them
	full                        bool   // whether black is 0 and white 255
	interlaced                  bool
	rows                        int // stored
}

// guarded are the options before each input. A file can be a playlist that names other files and
// addresses: ffmpeg reads only containers that hold everything themselves, and only files.
var guarded = []string{
	"-protocol_whitelist", "file",
	"-format_whitelist", "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,flv,mp3,wav,ogg,flac,aac",
}

// errMissing means that this worker cannot do such jobs.
var errMissing = errors.New("ffmpeg and ffprobe were not found on this worker: apt-get install ffmpeg, or brew install ffmpeg")

// media is what ffprobe says about a file.
type media struct {
	Streams []stream `json:"streams"`
	Format  struct {
		Duration string `json:"duration"`
	} `json:"format"`
}

type stream struct {
	Type   string `json:"codec_type"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Rate   string `json:"avg_frame_rate"`
	// Shape is the width of a pixel to its height, such as 4:3.
	Shape     string `json:"sample_aspect_ratio"`
	Fields    string `json:"field_order"`
	Format    string `json:"pix_fmt"`
	Range     string `json:"color_range"`
	Transfer  string `json:"color_transfer"`
	Primaries string `json:"color_primaries"`
	Matrix    string `json:"color_space"`
	Duration  string `json:"duration"`
	Side      []struct {
		Rotation float64 `json:"rotation"`
	} `json:"side_data_list"`
	Disposition struct {
		Picture int `json:"attached_pic"`
	} `json:"disposition"`
}

func inspect(ctx context.Context, path string) (*media, error) {
	args := append([]string{"-v", "error"}, guarded...)
	args = append(args, "-of", "json", "-show_entries",
		"stream=codec_type,width,height,avg_frame_rate,duration,sample_aspect_ratio,field_order,pix_fmt,color_range,color_transfer,color_primaries,color_space:stream_side_data=rotation:stream_disposition=attached_pic:format=duration", path)
	command := exec.CommandContext(ctx, "ffprobe", args...)
	dieWithParent(command)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errMissing
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var found media
	if err != nil || json.Unmarshal(out, &found) != nil {
		return nil, fmt.Errorf("it is not a file that ffmpeg can read (%s)", lastLine(strings.ReplaceAll(said.String(), path+": ", "")))
	}
	return &found, nil
}

// probe returns the properties of a clip.
func probe(ctx context.Context, path string) (clip, error) {
	found, err := inspect(ctx, path)
	if err != nil {
		return clip{}, err
	}
	c := clip{path: path}
	var picture *stream
	for i, s := range found.Streams {
		switch {
		case s.Type == "audio":
			c.sound = true
		case s.Type == "video" && s.Disposition.Picture == 0 && picture == nil:
			picture = &found.Streams[i]
		}
	}
	if picture == nil || picture.Width <= 0 || picture.Height <= 0 {
		return clip{}, errors.New("it has no video")
	}
	c.width, c.height = picture.shown()
	c.look = picture.look()
	for _, side := range picture.Side {
		if int(math.Abs(side.Rotation))%180 == 90 {
			c.width, c.height = c.height, c.width
		}
	}
	c.fps = rate(picture.Rate)
	c.seconds = number(picture.Duration)
	if c.timed = c.seconds > 0; !c.timed {
		c.seconds = number(found.Format.Duration)
	}
	if c.seconds <= 0 {
		return clip{}, errors.New("its length is unknown")
	}
	return c, c.whole(ctx)
}

// shown is the size in which a player shows the stored pixels, before rotation. It stretches one
// side and shrinks none.
func (s *stream) shown() (width, height int) {
	wide, high, _ := strings.Cut(s.Shape, ":")
	shape := number(wide) / number(high)
	switch {
	case !(shape > 1.0/maxShape && shape < maxShape): // also if it is unknown
		return s.Width, s.Height
	case shape > 1:
		return int(math.Round(float64(s.Width) * shape)), s.Height
	}
	return s.Width, int(math.Round(float64(s.Height) / shape))
}

// maxShape is the longest pixel that is believed.
const maxShape = 16

func (s *stream) look() look {
	return look{
		transfer: s.Transfer, primaries: s.Primaries, matrix: s.Matrix, rows: s.Height,
		full:       s.Range == "pc" || s.Range == "jpeg" || s.Range == "" && strings.HasPrefix(s.Format, "yuvj"),
		interlaced: s.Fields == "tt" || s.Fields == "bb" || s.Fields == "tb" || s.Fields == "bt",
	}
}

// probeSound returns an error unless the file has sound.
func probeSound(ctx context.Context, path string) error {
	found, err := inspect(ctx, path)
	if err != nil {
		return err
	}
	for _, s := range found.Streams {
		if s.Type == "audio" {
			return nil
		}
	}
	return errors.New("it has no sound")
}

func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

// rate reads a fraction such as 30000/1001. It returns 0 if it is unknown.
func rate(text string) float64 {
	above, below, _ := strings.Cut(text, "/")
	if n := number(below); n > 0 {
		return number(above) / n
	}
	return number(above)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	if len(last) > 300 {
		last = strings.ToValidUTF8(last[:300], "") + "…"
	}
	return last
}
