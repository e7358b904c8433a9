package services_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reelay/reelay/internal/services"
)

func TestChild(t *testing.T) {
	t.Parallel()

	t.Run("EndsWhenItsParentIsKilled", func(t *testing.T) {
		t.Parallel()

		dir := shortTempDir(t)
		parent, children := startParent(t, dir)
		grandchild := readPid(t, filepath.Join(dir, "grandchild"))

		require.NoError(t, parent.Process.Kill())

		for _, pid := range append(children, grandchild) {
			requireGone(t, pid)
		}
		startPostgres(t, filepath.Join(dir, "postgres"))
		startRedis(t, filepath.Join(dir, "redis"))
	})

	t.Run("SaysWhyItEndedUnasked", func(t *testing.T) {
		t.Parallel()

		log := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(log, []byte("words of an earlier run\n"), 0o600))

		child, err := services.StartChild(services.ChildConfig{
			Name: "shell", Path: "/bin/sh", Args: []string{"-c", "read word; echo no $word here; exit 3"}, Input: "disk\n", Log: log,
		})
		require.NoError(t, err)
		<-child.Done()

		require.ErrorContains(t, child.Err(), "shell ended unexpectedly (exit status 3)")
		require.ErrorContains(t, child.Err(), "no disk here")
		require.NotContains(t, child.Err().Error(), "earlier run")
		require.NoError(t, child.Stop(t.Context()), "stopping what has ended does nothing")
	})

	t.Run("IsKilledWithItsGroupWhenItDoesNotEnd", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		child, err := services.StartChild(services.ChildConfig{
			Name: "shell", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; sleep 1000 & echo $! >pid.new; mv pid.new pid; wait; wait"}, Dir: dir,
			Grace: 50 * time.Millisecond,
		})
		require.NoError(t, err)
		grandchild := readPid(t, filepath.Join(dir, "pid"))

		err = child.Stop(t.Context())

		require.ErrorContains(t, err, "shell did not end when asked to and was killed")
		require.NoError(t, child.Err(), "an end that was asked for is not unexpected")
		requireGone(t, grandchild)
	})

	t.Run("LeavesNothingOfItsGroupWhenItEnds", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		child, err := services.StartChild(services.ChildConfig{
			Name: "shell", Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & echo $! >pid"}, Dir: dir,
		})
		require.NoError(t, err)
		<-child.Done()

		requireGone(t, readPid(t, filepath.Join(dir, "pid")))
	})

	t.Run("CannotBeAProgramThatIsNotThere", func(t *testing.T) {
		t.Parallel()

		_, err := services.StartChild(services.ChildConfig{Name: "ghost", Path: "/nowhere/ghost"})

		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "start ghost")
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()

	t.Run("EndsWithAProcessItFollows", func(t *testing.T) {
		t.Parallel()

		child, err := services.StartChild(services.ChildConfig{Name: "cat", Path: "/bin/sleep", Args: []string{"1000"}})
		require.NoError(t, err)
		ctx, err := services.Follow(t.Context(), strconv.Itoa(os.Getpid())+" "+strconv.Itoa(child.Pid()))
		require.NoError(t, err)
		require.NoError(t, ctx.Err())

		child.Kill()

		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
	})

	t.Run("RefusesWhatIsNoProcess", func(t *testing.T) {
		t.Parallel()

		_, err := services.Follow(t.Context(), "12 x")

		require.ErrorContains(t, err, `"x" is not a process id`)
	})
}

func TestLockDir(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheProcessThatHoldsIt", func(t *testing.T) {
		t.Parallel()

		dir := filepath.Join(t.TempDir(), "data")
		lock, err := services.LockDir(dir)
		require.NoError(t, err)

		_, err = services.LockDir(dir)

		require.ErrorContains(t, err, dir+" is in use by process "+strconv.Itoa(os.Getpid()))
		require.NoError(t, lock.Release())
		again, err := services.LockDir(dir)
		require.NoError(t, err)
		require.NoError(t, again.Release())
	})

	t.Run("SaysWhatToDoWithAPathThatCannotBeWritten", func(t *testing.T) {
		t.Parallel()

		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))

		_, err := services.LockDir(filepath.Join(file, "data"))

		require.ErrorIs(t, err, syscall.ENOTDIR)
		require.ErrorContains(t, err, "Give this user the right to write there, or choose another directory")
	})
}

// shortTempDir is a directory whose sockets fit into the system's limit.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711), "a server that root starts may have to pass")
	return dir
}

// readPid waits for the file and reads the process id in it.
func readPid(t *testing.T, path string) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	return pid
}
