package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// flip changes one bit of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// signed returns a folder with two files, their sums and a signature, and what checks them as
// docs/operators/deployment.md says.
func signed(t *testing.T) (folder string, check func(command string) (string, error)) {
	t.Helper()
	folder, keys := t.TempDir(), t.TempDir()
	for _, name := range []string{"reelay_1.deb", "reelay_1.tar.gz"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("what "+name+" contains"), 0o644))
	}
	check = func(command string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = folder
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	key := filepath.Join(keys, "key")
	said, err := check("ssh-keygen -q -t ed25519 -N '' -C releases@reelay -f " + key)
	require.NoError(t, err, "ssh-keygen comes with go tool task setup:browser: %s", said)
	public, err := os.ReadFile(key + ".pub")
	require.NoError(t, err)

	require.NoError(t, writeSums(folder))
	require.NoError(t, sign(t.Context(), key, filepath.Join(folder, sumsFile)))

	require.NoError(t, os.WriteFile(filepath.Join(folder, "allowed_signers"), append([]byte("releases@reelay "), public...), 0o644))
	return folder, check
}

const (
	checkSums      = "sha256sum -c SHA256SUMS"
	checkSignature = "ssh-keygen -Y verify -f allowed_signers -I releases@reelay -n file -s SHA256SUMS.sig <SHA256SUMS"
)

func TestSums(t *testing.T) {
	t.Parallel()

	t.Run("AreRight", func(t *testing.T) {
		t.Parallel()
		_, check := signed(t)

		said, err := check(checkSums)
		require.NoError(t, err, said)
		require.Equal(t, "reelay_1.deb: OK\nreelay_1.tar.gz: OK\n", said)
		said, err = check(checkSignature)
		require.NoError(t, err, said)
		require.Contains(t, said, `Good "file" signature for releases@reelay`)
	})

	t.Run("FindOneFlippedBitInAFile", func(t *testing.T) {
		t.Parallel()
		folder, check := signed(t)
		flip(t, filepath.Join(folder, "reelay_1.deb"))

		said, err := check(checkSums)

		require.Error(t, err)
		require.Contains(t, said, "reelay_1.deb: FAILED\nreelay_1.tar.gz: OK\n")
	})

	t.Run("AreSignedAgainstOneFlippedBit", func(t *testing.T) {
		t.Parallel()
		folder, check := signed(t)
		flip(t, filepath.Join(folder, sumsFile))

		said, err := check(checkSignature)

		require.Error(t, err)
		require.Contains(t, said, "incorrect signature")
	})

	t.Run("AreNotSignedWithoutAKey", func(t *testing.T) {
		t.Parallel()

		err := sign(t.Context(), filepath.Join(t.TempDir(), "none"), sumsFile)

		require.ErrorContains(t, err, "sign SHA256SUMS with the SSH key ")
	})
}

func TestDocs(t *testing.T) {
	t.Parallel()

	for _, page := range []string{"../../docs/operators/deployment.md", "../../docs/developers/releases.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(text), "sha256sum -c --ignore-missing SHA256SUMS", page)
		require.Contains(t, string(text), checkSignature, page)
	}
}
