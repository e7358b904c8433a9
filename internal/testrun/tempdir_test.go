package testrun

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/stretchr/testify/require"
)

func TestRemoveAbandoned(t *testing.T) {
	t.Parallel()

	parent := t.TempDir()
	prepare := func(name string) (dir string, lock *localstack.DirLock) {
		dir = filepath.Join(parent, tempDirs+name)
		lock, err := localstack.LockDir(dir)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "TestOne", "001"), 0o700))
		return dir, lock
	}
	abandoned, lock := prepare("abandoned")
	require.NoError(t, lock.Release())
	owned, lock := prepare("owned")
	unowned := filepath.Join(parent, tempDirs+"unowned")
	require.NoError(t, os.Mkdir(unowned, 0o700))
	other := filepath.Join(parent, "other")
	require.NoError(t, os.Mkdir(other, 0o700))

	removeAbandoned(parent)

	require.NoDirExists(t, abandoned)
	require.DirExists(t, filepath.Join(owned, "TestOne", "001"))
	require.DirExists(t, unowned, "its owner is about to lock it")
	require.DirExists(t, other)
	require.NoError(t, lock.Release())
}

func TestQuietClock(t *testing.T) {
	t.Parallel()

	clock := StartQuietClock()
	if !clock.known {
		t.Skip("this kernel does not report how long processes wait for a processor")
	}
	began := time.Now()

	Eventually(t, "some time is quiet", func() bool { return clock.Elapsed() > 0 })

	require.LessOrEqual(t, clock.Elapsed(), time.Since(began)+time.Second)
}
