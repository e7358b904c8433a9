package graph

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWire(t *testing.T) {
	t.Parallel()
	text, closes := []byte{textFrame, 2, 'h', 'i'}, []byte{closeFrame, 2, 1000 >> 8, 1000 & 0xff}

	t.Run("SaysNothingOnceItSaidThatItCloses", func(t *testing.T) {
		t.Parallel()
		here, there := net.Pipe()
		w := &wire{Conn: here, patience: time.Minute}
		heard := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(there)
			heard <- all
		}()
		require.NoError(t, w.writeText([]byte("h"), []byte("i")))
		_, err := w.Write(closes)
		require.NoError(t, err)

		require.ErrorIs(t, w.writeText([]byte("late")), net.ErrClosed)

		_, err = w.Write(closes)
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, w.Close())
		require.Equal(t, append(text, closes...), <-heard)
	})

	t.Run("GivesUpOnWhoDoesNotReadAlsoAfterItWasSilentForLong", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			w := &wire{Conn: here, patience: time.Minute}
			for range 2 {
				go io.CopyN(io.Discard, there, int64(len(text)))
				require.NoError(t, w.writeText([]byte("hi")))
				time.Sleep(2 * w.patience) // its deadline is over
			}
			began := time.Now()

			err := w.writeText([]byte("hi"))

			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, w.patience, time.Since(began))
			require.ErrorIs(t, w.writeText([]byte("behind a part")), net.ErrClosed)
		})
	})
}
