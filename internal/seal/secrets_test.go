package seal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/reelay/reelay/internal/seal"
	"github.com/stretchr/testify/require"
)

func TestLoadOrCreate(t *testing.T) {
	t.Parallel()

	t.Run("LoadsWhatItCreated", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "secrets.json")

		created, err := seal.LoadOrCreate(path)
		require.NoError(t, err)
		again, err := seal.LoadOrCreate(path)
		require.NoError(t, err)

		require.Equal(t, created, again)
		require.Len(t, created.LinkKey, 32)
		newSealer(t, created.Keyset)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, left, 1, "no temporary file may stay")
	})

	t.Run("ReturnsTheSameSecretsToConcurrentCallers", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "secrets.json")
		var all [16]seal.Secrets
		var errs [16]error
		var done sync.WaitGroup
		start := make(chan struct{})

		for i := range all {
			done.Go(func() {
				<-start
				all[i], errs[i] = seal.LoadOrCreate(path)
			})
		}
		close(start)
		done.Wait()

		for i := range all {
			require.NoError(t, errs[i])
			require.Equal(t, all[0], all[i])
		}
	})

	t.Run("ReportsAMissingFolder", func(t *testing.T) {
		t.Parallel()

		_, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "missing", "secrets.json"))

		require.ErrorContains(t, err, "create the secrets file")
	})
}

func TestLoad(t *testing.T) {
	t.Parallel()

	t.Run("RefusesAFileThatOtherUsersCanRead", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "secrets.json")
		_, err := seal.LoadOrCreate(path)
		require.NoError(t, err)

		if os.Geteuid() == 0 { // else it is not a file of root
			require.NoError(t, os.Chown(path, 65532, 65532))
		}

		for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602} {
			require.NoError(t, os.Chmod(path, mode))
			_, err := seal.Load(path)
			require.ErrorContains(t, err, "chmod 600 "+path)
			_, err = seal.LoadOrCreate(path)
			require.ErrorContains(t, err, "chmod 600 "+path)
		}
	})

	t.Run("TakesAFileOfRootThatTheGroupCanRead", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("only root can make a file of root")
		}
		path := filepath.Join(t.TempDir(), "secrets.json")
		_, err := seal.LoadOrCreate(path)
		require.NoError(t, err)

		for _, mode := range []fs.FileMode{0o440, 0o640} {
			require.NoError(t, os.Chmod(path, mode))
			_, err := seal.Load(path)
			require.NoError(t, err)
		}
		for _, mode := range []fs.FileMode{0o644, 0o660, 0o650} {
			require.NoError(t, os.Chmod(path, mode))
			_, err := seal.Load(path)
			require.ErrorContains(t, err, "chmod 600 "+path)
		}
	})

	t.Run("RefusesAFileThatLacksASecret", func(t *testing.T) {
		t.Parallel()
		usable := string(newKeyset(t))
		cases := map[string]string{
			"not JSON":         "keyset: none",
			"no usable keyset": `{"linkKey":"` + "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=" + `"}`,
			"of 32 bytes":      `{"keyset":` + usable + `,"linkKey":"a2s="}`,
		}

		for says, text := range cases {
			path := filepath.Join(t.TempDir(), "secrets.json")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := seal.Load(path)
			require.ErrorContains(t, err, says)
		}
	})

	t.Run("ReportsAMissingFile", func(t *testing.T) {
		t.Parallel()

		_, err := seal.Load(filepath.Join(t.TempDir(), "secrets.json"))

		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}
