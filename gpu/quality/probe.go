package quality

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// container is what the header of a file says.
type container struct {
	codec         string
	width, height int
	seconds       float64 // of the video track; 0 if the header does not say
	limit         float64 // seconds of the whole file, or 0
	frames        int     // 0 if the header does not say
	start         float64 // of the first frame
	fps           float64
	shape         float64 // the width of a pixel to its height; 0 if unknown
	transfer      string  // the transfer function, primaries and matrix, as ffprobe names them
	primaries     string
	matrix        string
	audio         *sound // nil: no track
	cut           bool   // the file is shorter than its boxes say
}

// sound is an audio track by its header.
type sound struct {
	channels, rate int
	start          float64
}

const maxProbe = 1 << 20 // bytes of ffprobe's output

// maxPixels is the largest frame that is decoded: 8K.
const maxPixels = 7680 * 4320

// probe reads the header. A file that is not a video is a defect.
func probe(ctx context.Context, ffprobe, path string) (container, *Defect, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil && errors.Is(err, os.ErrNotExist):
		return container{}, &Defect{Undecodable, "The video file does not exist."}, nil
	case err != nil:
		return container{}, nil, err
	case !info.Mode().IsRegular():
		return container{}, &Defect{Undecodable, "The video is not a regular file."}, nil
	case info.Size() == 0:
		return container{}, &Defect{Undecodable, "The video file has 0 bytes."}, nil
	}
	var out []byte
	args := append([]string{"-v", "error", "-threads", "1", "-of", "json", "-show_entries",
		"format=duration:stream=codec_type,codec_name,width,height,avg_frame_rate,nb_frames,start_time,duration,channels,sample_rate,sample_aspect_ratio,color_transfer,color_primaries,color_space:" +
			"stream_disposition=attached_pic"}, input(path)...)
	said, ok, err := run(ctx, ffprobe, args, func(r io.Reader) (err error) {
		out, err = io.ReadAll(io.LimitReader(r, maxProbe))
		if len(out) == maxProbe {
			return errors.New("ffprobe printed too much")
		}
		return err
	})
	if err != nil {
		return container{}, nil, err
	}
	if !ok {
		return container{}, &Defect{Undecodable, fmt.Sprintf("The file of %d bytes is not a readable MP4 or WebM video: %s.", info.Size(),
			said.first())}, nil
	}
	return parseProbe(out)
}

type stream struct {
	Type        string `json:"codec_type"`
	Codec       string `json:"codec_name"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	Rate        string `json:"avg_frame_rate"`
	Frames      string `json:"nb_frames"`
	Start       string `json:"start_time"`
	Duration    string `json:"duration"`
	Channels    int    `json:"channels"`
	SampleRate  string `json:"sample_rate"`
	Shape       string `json:"sample_aspect_ratio"`
	Transfer    string `json:"color_transfer"`
	Primaries   string `json:"color_primaries"`
	Matrix      string `json:"color_space"`
	Disposition struct {
		Picture int `json:"attached_pic"`
	} `json:"disposition"`
}

func parseProbe(out []byte) (container, *Defect, error) {
	var answer struct {
		Streams []stream
		Format  struct{ Duration string }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return container{}, nil, fmt.Errorf("read the output of ffprobe: %w", err)
	}
	var c container
	found := false
	for _, s := range answer.Streams {
		switch {
		case s.Type == "video" && s.Disposition.Picture == 0 && !found:
			found = true
			c.codec, c.width, c.height = s.Codec, s.Width, s.Height
			c.frames, _ = strconv.Atoi(s.Frames)
			c.start, c.fps = number(s.Start), fraction(s.Rate)
			c.seconds, c.limit = number(s.Duration), number(answer.Format.Duration)
			c.shape, c.transfer, c.primaries, c.matrix = fraction(strings.Replace(s.Shape, ":", "/", 1)), s.Transfer, s.Primaries, s.Matrix
		case s.Type == "audio" && c.audio == nil:
			c.audio = &sound{channels: s.Channels, rate: int(number(s.SampleRate)), start: number(s.Start)}
		}
	}
	if c.seconds == 0 && c.audio == nil { // WebM: the file is as long as its only track
		c.seconds = c.limit
	}
	switch {
	case !found:
		return c, &Defect{Undecodable, "The file has no video track."}, nil
	case c.width <= 0 || c.height <= 0 || c.width*c.height > maxPixels:
		return c, &Defect{Undecodable, fmt.Sprintf("The video has frames of %d × %d pixels, which cannot be decoded.", c.width, c.height)}, nil
	}
	return c, nil, nil
}

// number reads a decimal number. ffprobe writes N/A for what it does not know, which
// is 0.
func number(s string) float64 {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n != n || n > 1e9 || n < -1e9 {
		return 0
	}
	return n
}

func fraction(s string) float64 {
	over, under, ok := strings.Cut(s, "/")
	if !ok || number(under) == 0 {
		return 0
	}
	return number(over) / number(under)
}

func (c container) numbers() Numbers {
	return Numbers{Codec: c.codec, Width: c.width, Height: c.height, FPS: c.fps, HeaderSeconds: c.seconds}
}

func (c container) compareSize(e Expect) *Defect {
	if e.Width != 0 && e.Width != c.width || e.Height != 0 && e.Height != c.height {
		return &Defect{WrongSize, fmt.Sprintf("The video has %d × %d pixels; %s × %s were asked for.", c.width, c.height, orAny(e.Width),
			orAny(e.Height))}
	}
	if short := min(c.width, c.height); e.ShortSide != 0 && (short < e.ShortSide-16 || short > e.ShortSide+16) {
		return &Defect{WrongSize, fmt.Sprintf("The video has %d × %d pixels; %d were asked for on the shorter side.", c.width, c.height,
			e.ShortSide)}
	}
	return nil
}

func orAny(n int) string {
	if n == 0 {
		return "any"
	}
	return strconv.Itoa(n)
}
