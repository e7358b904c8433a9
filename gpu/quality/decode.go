package quality

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	gridWidth  = 64
	gridHeight = 36
	cells      = gridWidth * gridHeight
)

// measured is what one pass over a file found.
type measured struct {
	container
	frames   []frame
	areas    []area
	points   []point
	audible  *audible // nil: no audio was decoded
	problems *complaints
	ok       bool // ffmpeg's status was 0
}

// frame is a decoded frame in full size.
type frame struct {
	at, lasts float64 // seconds
	same      bool    // every pixel is that of the frame before
}

// decode measures the video, and the audio if it was asked for and exists.
func decode(ctx context.Context, ffmpeg, path string, c container, withAudio bool) (*measured, error) {
	m := &measured{container: c}
	args := append([]string{"-v", "error", "-nostdin", "-noautorotate", "-threads", "2", "-filter_complex_threads", "1",
		"-max_pixels", strconv.Itoa(maxPixels)}, input(path)...)
	shrink := func(flags string) string {
		return fmt.Sprintf("scale=%d:%d:flags=%s,format=rgb24", gridWidth, gridHeight, flags)
	}
	args = append(args, "-vsync", "passthrough", "-filter_complex",
		"[0:V:0]split=3[full][a][p];[a]"+shrink("area")+"[area];[p]"+shrink("neighbor")+"[point]",
		"-map", "[area]", "-f", "rawvideo", "pipe:1",
		"-map", "[point]", "-f", "rawvideo", "pipe:3",
		"-map", "[full]", "-enc_time_base", "1/90000", "-f", "framecrc", "pipe:4")
	readers := []func(io.Reader) error{
		func(r io.Reader) error { return eachGrid(r, m.addArea()) },
		func(r io.Reader) error { return eachGrid(r, m.addPoint()) },
		m.readFrames,
	}
	if withAudio && c.audio != nil && c.audio.channels > 0 && c.audio.rate > 0 {
		m.audible = &audible{sound: *c.audio}
		args = append(args, "-map", "0:a:0", "-ac", strconv.Itoa(c.audio.channels), "-ar", strconv.Itoa(c.audio.rate), "-f", "s16le", "pipe:5")
		readers = append(readers, m.audible.read)
	}
	var err error
	m.problems, m.ok, err = run(ctx, ffmpeg, args, readers...)
	if err != nil {
		return nil, err
	}
	n := min(len(m.frames), len(m.areas), len(m.points))
	m.frames, m.areas, m.points = m.frames[:n], m.areas[:n], m.points[:n]
	return m, nil
}

// readFrames reads the lines of ffmpeg's framecrc format:
//
//	#tb 0: 1/90000
//	0, dts, pts, duration, size, 0xchecksum
func (m *measured) readFrames(r io.Reader) error {
	const base = 1.0 / 90000
	before := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, ",")
		if len(fields) < 6 {
			return fmt.Errorf("ffmpeg printed the line %.80q about a frame", line)
		}
		sum := fields[4] + fields[5]
		m.frames = append(m.frames, frame{
			at: number(strings.TrimSpace(fields[2])) * base, lasts: number(strings.TrimSpace(fields[3])) * base,
			same: sum == before,
		})
		before = sum
	}
	return lines.Err()
}

// eachGrid calls add with each small picture. The slice is valid during the call.
func eachGrid(r io.Reader, add func([]byte)) error {
	buffered := bufio.NewReaderSize(r, 4*3*cells)
	pixels := make([]byte, 3*cells)
	for {
		_, err := io.ReadFull(buffered, pixels)
		switch err {
		case nil:
			add(pixels)
		case io.EOF, io.ErrUnexpectedEOF: // the end is judged by the number of frames
			return nil
		default:
			return err
		}
	}
}
