package freshfile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/freshfile"
	"github.com/stretchr/testify/require"
)

// word is a file with a word in capitals.
type word struct {
	*freshfile.File[string]
	path  string
	reads int
}

func newWord(t *testing.T) *word {
	w := &word{path: filepath.Join(t.TempDir(), "word")}
	w.File = freshfile.New(func() (string, error) {
		w.reads++
		text, err := os.ReadFile(w.path)
		if err == nil && strings.ToUpper(string(text)) != string(text) {
			err = errors.New("it is not in capitals")
		}
		return string(text), err
	}, w.path, "")
	return w
}

// write replaces the word. It has had its time for as long as age.
func (w *word) write(t *testing.T, text string, age time.Duration) {
	t.Helper()
	require.NoError(t, os.WriteFile(w.path, []byte(text), 0o600))
	require.NoError(t, os.Chtimes(w.path, time.Now().Add(-age), time.Now().Add(-age)))
}

func (w *word) is(t *testing.T, want string) {
	t.Helper()
	got, err := w.Get()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// These tests are not parallel: one of them reads the log.
func TestFile(t *testing.T) {
	t.Run("IsReadAgainWhenItChanges", func(t *testing.T) {
		w := newWord(t)
		w.write(t, "ONE", 3*time.Hour)
		w.is(t, "ONE")
		w.is(t, "ONE")
		require.Equal(t, 1, w.reads)

		w.write(t, "TWO", 2*time.Hour)
		w.is(t, "TWO")

		w.write(t, "THREE", 2*time.Hour)
		w.is(t, "THREE")
		w.is(t, "THREE")
		require.Equal(t, 3, w.reads)
	})

	t.Run("IsReadAgainWhenAnotherFileHasItsTimeAndSize", func(t *testing.T) {
		w := newWord(t)
		at := time.Now().Add(-time.Hour)
		w.write(t, "ONE", 0)
		require.NoError(t, os.Chtimes(w.path, at, at))
		w.is(t, "ONE")

		next := w.path + ".new"
		require.NoError(t, os.WriteFile(next, []byte("TWO"), 0o600))
		require.NoError(t, os.Chtimes(next, at, at))
		require.NoError(t, os.Rename(next, w.path))

		w.is(t, "TWO")
	})

	t.Run("IsReadAgainWhenItChangesTwiceAtOnce", func(t *testing.T) {
		w := newWord(t)
		w.write(t, "ONE", 0)
		info, err := os.Stat(w.path)
		require.NoError(t, err)
		w.is(t, "ONE")

		require.NoError(t, os.WriteFile(w.path, []byte("TWO"), 0o600))
		require.NoError(t, os.Chtimes(w.path, info.ModTime(), info.ModTime()))

		w.is(t, "TWO")
	})

	t.Run("KeepsItsValueWhileItCannotBeRead", func(t *testing.T) {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)
		w := newWord(t)
		w.write(t, "ONE", time.Hour)
		w.is(t, "ONE")

		w.write(t, "half", 0)
		w.is(t, "ONE")
		w.is(t, "ONE")
		require.Equal(t, 1, strings.Count(log.String(), "cannot be read"))
		require.Contains(t, log.String(), "it is not in capitals")

		require.NoError(t, os.Remove(w.path))
		w.is(t, "ONE")
		require.Equal(t, 2, strings.Count(log.String(), "cannot be read"))

		w.write(t, "TWO", 0)
		w.is(t, "TWO")
		w.is(t, "TWO")
		require.Equal(t, 1, strings.Count(log.String(), "was read again"))
	})

	t.Run("FailsUntilItCouldBeRead", func(t *testing.T) {
		w := newWord(t)
		_, err := w.Get()
		require.ErrorIs(t, err, os.ErrNotExist)

		w.write(t, "ONE", 0)

		w.is(t, "ONE")
	})
}
