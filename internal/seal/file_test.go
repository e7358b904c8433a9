package seal_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/seal"
	"github.com/stretchr/testify/require"
)

// copyTo copies a secrets file to another machine, as it were, and makes it look new.
func copyTo(t *testing.T, from, to string, age time.Duration) {
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, text, 0o600))
	require.NoError(t, os.Chtimes(to, time.Now().Add(-age), time.Now().Add(-age)))
}

func edit(t *testing.T, path string, change func(*seal.Secrets) error) {
	secrets, err := seal.Load(path)
	require.NoError(t, err)
	require.NoError(t, change(&secrets))
	require.NoError(t, seal.Replace(path, secrets))
}

func TestFile(t *testing.T) {
	t.Parallel()

	t.Run("RotatesItsKeysWhileTwoMachinesUseIt", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		master, one, two := filepath.Join(dir, "master"), filepath.Join(dir, "one"), filepath.Join(dir, "two")
		require.NoError(t, seal.Create(master))
		copyTo(t, master, one, 4*time.Hour)
		copyTo(t, master, two, 4*time.Hour)
		first, err := seal.OpenFile(one)
		require.NoError(t, err)
		second, err := seal.OpenFile(two)
		require.NoError(t, err)
		old := sealed(t, first.Sealer(), fox, job1)
		signs := first.LinkKeys()[0]

		edit(t, master, (*seal.Secrets).AddKeys)
		copyTo(t, master, one, 3*time.Hour)
		copyTo(t, master, two, 3*time.Hour)
		require.Equal(t, signs, first.LinkKeys()[0], "the new key signs nothing yet")
		require.Len(t, first.LinkKeys(), 2)
		edit(t, master, (*seal.Secrets).UseKeys)
		copyTo(t, master, one, 2*time.Hour) // the other machine has the file of before

		fresh := sealed(t, first.Sealer(), fox, job2)
		_, err = second.Sealer().Open(fresh, job2)
		require.NoError(t, err, "its file has the key, too")
		require.Contains(t, second.LinkKeys(), first.LinkKeys()[0])
		require.NotEqual(t, signs, first.LinkKeys()[0])
		require.Contains(t, first.LinkKeys(), signs, "links of before are valid")
		for _, file := range []*seal.File{first, second} {
			text, err := file.Sealer().Open(old, job1)
			require.NoError(t, err)
			require.Equal(t, fox, text)
		}
	})

	t.Run("KeepsItsSecretsWhileItIsHalfWritten", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "secrets")
		require.NoError(t, seal.Create(path))
		file, err := seal.OpenFile(path)
		require.NoError(t, err)
		s := sealed(t, file.Sealer(), fox, job1)
		for _, text := range []string{"", `{"keyset":`, `{"keyset": {}, "linkKey": "aaaa"}`} {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			require.NoError(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
			_, err := file.Sealer().Open(s, job1)
			require.NoError(t, err, text)
		}
		require.NoError(t, os.Remove(path))
		_, err = file.Sealer().Open(s, job1)
		require.NoError(t, err)
	})

	t.Run("UsesOnlyKeysThatWereAddedBefore", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "secrets")
		require.NoError(t, seal.Create(path))
		secrets, err := seal.Load(path)
		require.NoError(t, err)

		require.ErrorContains(t, secrets.UseKeys(), "add one first")
		for range 3 {
			require.NoError(t, secrets.AddKeys())
			require.NoError(t, secrets.UseKeys())
			require.ErrorContains(t, secrets.UseKeys(), "add one first")
		}
		ids, err := secrets.KeyIDs()
		require.NoError(t, err)
		require.Len(t, ids, 4)
		require.True(t, ids[3].Primary)
		require.LessOrEqual(t, len(secrets.OtherLinkKeys), 2)
		require.ErrorIs(t, seal.Create(path), os.ErrExist)
	})
}
