package quality

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
)

// audible is the measured audio.
type audible struct {
	sound
	seconds float64
	loudest float64 // root mean square of the loudest 50 ms, from 0 to 1, without the DC offset
}

// read reads samples of 16 bits.
func (a *audible) read(r io.Reader) error {
	buffered := bufio.NewReaderSize(r, 64<<10)
	window := make([]byte, 2*a.channels*max(1, a.rate/20))
	total := 0
	for {
		n, err := io.ReadFull(buffered, window)
		total += n
		// The rest of the audio is measured too, unless it is a few samples only.
		if n >= len(window)/4 {
			a.loudest = max(a.loudest, loudness(window[:n], a.channels))
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			a.seconds = float64(total) / float64(2*a.channels*a.rate)
			return nil
		default:
			return err
		}
	}
}

// loudness is the largest standard deviation of a channel.
func loudness(samples []byte, channels int) float64 {
	loudest := 0.0
	for c := range channels {
		sum, squares, n := 0.0, 0.0, 0.0
		for i := 2 * c; i+1 < len(samples); i += 2 * channels {
			v := float64(int16(binary.LittleEndian.Uint16(samples[i:]))) / 32768
			sum, squares, n = sum+v, squares+v*v, n+1
		}
		if n > 0 {
			loudest = max(loudest, math.Sqrt(max(0, squares/n-sum/n*sum/n)))
		}
	}
	return loudest
}

// decibels is a level in dBFS; silence is −120.
func decibels(level float64) float64 { return max(-120, 20*math.Log10(level)) }
