package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clientFrame is a frame in the form that clients send.
func clientFrame(first byte, size int) []byte {
	frame := []byte{first}
	switch {
	case size < 126:
		frame = append(frame, 0x80|byte(size))
	case size < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(size))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(size))
	}
	return append(append(frame, 1, 2, 3, 4), make([]byte, size)...)
}

func TestFrameBudget(t *testing.T) {
	t.Parallel()
	now := time.Now()

	t.Run("CountsFramesHoweverTheyAreSplit", func(t *testing.T) {
		t.Parallel()
		var sent []byte
		for i := range maxFrames {
			sent = append(sent, clientFrame(byte(i), []int{0, 1, 125, 126, 65_535, 65_536}[i%6])...)
		}
		b := newFrameBudget()

		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(100_000))
			if rand.IntN(2) == 0 {
				n = min(len(rest), 1+rand.IntN(20))
			}
			b.spend(rest[:n], now)
			rest = rest[n:]
		}

		require.Zero(t, b.left)
		require.False(t, b.isSpent())
		b.spend(clientFrame(0x89, 0)[:5], now)
		require.False(t, b.isSpent(), "its head is not whole")
		b.spend([]byte{4}, now)
		require.True(t, b.isSpent())
	})

	t.Run("RecoversWithTime", func(t *testing.T) {
		t.Parallel()
		b := newFrameBudget()
		for range maxFrames {
			b.spend(clientFrame(0x89, 0), now)
		}
		require.Zero(t, b.left)

		b.spend(nil, now.Add(time.Second))
		require.InDelta(t, framesPerSecond, b.left, 0.001)
		b.spend(nil, now.Add(time.Hour))
		require.InDelta(t, maxFrames, b.left, 0.001)
	})

	t.Run("CountsAnEndlessFrameOnce", func(t *testing.T) {
		t.Parallel()
		b := newFrameBudget()
		endless := append([]byte{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1, 2, 3, 4)

		b.spend(append(endless, make([]byte, 1<<20)...), now)

		require.InDelta(t, maxFrames-1, b.left, 0.001)
	})
}
