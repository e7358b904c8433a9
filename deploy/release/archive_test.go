package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteArchive(t *testing.T) {
	t.Parallel()

	at := time.Unix(1795874678, 0)
	write := func(t *testing.T, modified time.Time, mode os.FileMode, names ...string) string {
		t.Helper()
		folder := t.TempDir()
		var entries []entry
		for _, name := range names {
			file := filepath.Join(folder, name)
			require.NoError(t, os.WriteFile(file, []byte("text of "+name), mode))
			require.NoError(t, os.Chtimes(file, modified, modified))
			entries = append(entries, entry{name, file, 0o755})
		}
		path := filepath.Join(folder, "a.tar.gz")
		require.NoError(t, writeArchive(path, "reelay_1", entries, at))
		return path
	}

	t.Run("DependsOnNamesAndContentsOnly", func(t *testing.T) {
		t.Parallel()

		first, err := sumOf(write(t, time.Now(), 0o600, "b", "a"))
		require.NoError(t, err)
		second, err := sumOf(write(t, time.Unix(1, 0), 0o644, "a", "b"))
		require.NoError(t, err)

		require.Equal(t, first, second)
	})

	t.Run("HasEveryFile", func(t *testing.T) {
		t.Parallel()
		file, err := os.Open(write(t, time.Now(), 0o600, "b", "a"))
		require.NoError(t, err)
		defer file.Close()
		zip, err := gzip.NewReader(file)
		require.NoError(t, err)
		archive := tar.NewReader(zip)

		for _, name := range []string{"a", "b"} {
			header, err := archive.Next()
			require.NoError(t, err)
			require.Equal(t, "reelay_1/"+name, header.Name)
			require.Equal(t, int64(0o755), header.Mode)
			require.True(t, header.ModTime.Equal(at))
			require.Zero(t, header.Uid)
			text, err := io.ReadAll(archive)
			require.NoError(t, err)
			require.Equal(t, "text of "+name, string(text))
		}
		_, err = archive.Next()
		require.True(t, errors.Is(err, io.EOF))
	})
}
