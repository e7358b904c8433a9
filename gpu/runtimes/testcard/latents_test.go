package testcard

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdvance(t *testing.T) {
	t.Parallel()

	t.Run("GivesTheSameBitsOnEveryProcessor", func(t *testing.T) {
		t.Parallel()

		f, err := parseVideo("A calm sea", []byte(`{"durationSeconds":0.5}`))
		require.NoError(t, err)
		l := newLatents(f)
		for l.step < l.steps {
			l.advance()
		}
		content, err := encodeCheckpoint(f, l)
		require.NoError(t, err)

		sum := sha256.Sum256(content)

		require.Equal(t, "f9ba7bb7e01c81dab75ed5cf76f7253940225620404163377eb7ba71bb7a125a", hex.EncodeToString(sum[:]))
	})
}

func TestEncodeCheckpoint(t *testing.T) {
	t.Parallel()

	t.Run("RefusesAnImpossibleState", func(t *testing.T) {
		t.Parallel()

		f, err := parseVideo("A calm sea", nil)
		require.NoError(t, err)
		l := newLatents(f)
		l.cells[5] = limit + 1

		_, err = encodeCheckpoint(f, l)

		require.ErrorContains(t, err, "no step can produce")
	})
}

// TestPaint is not parallel: allocations are counted for the whole process.
func TestPaint(t *testing.T) {
	t.Run("AllocatesNothingPerFrame", func(t *testing.T) {
		f, err := parseVideo("A calm sea", nil)
		require.NoError(t, err)
		c, err := newCard(f, newLatents(f))
		require.NoError(t, err)

		require.Zero(t, testing.AllocsPerRun(5, func() { c.paint(40) }))
	})
}
