package localstack_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
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

	t.Run("ReportsAnUnexpectedEnd", func(t *testing.T) {
		t.Parallel()

		log := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(log, []byte("words of an earlier run\n"), 0o600))

		child, err := localstack.StartChild(localstack.ChildConfig{
			Name: "shell", Path: "/bin/sh", Args: []string{"-c", "read word; echo no $word here; exit 3"}, Input: "disk\n", Log: log,
		})
		require.NoError(t, err)
		<-child.Done()

		require.ErrorContains(t, child.Err(), "shell ended unexpectedly (exit status 3)")
		require.ErrorContains(t, child.Err(), "no disk here")
		require.NotContains(t, child.Err().Error(), "earlier run")
		require.NoError(t, child.Stop(t.Context()), "stopping an ended program does nothing")
	})

	t.Run("IsKilledWithItsGroupWhenItDoesNotEnd", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		child, err := localstack.StartChild(localstack.ChildConfig{
			Name: "shell", Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; sleep 1000 & echo $! >pid.new; mv pid.new pid; wait; wait"},
			Dir:   dir,
			Grace: 50 * time.Millisecond,
		})
		require.NoError(t, err)
		grandchild := readPid(t, filepath.Join(dir, "pid"))

		err = child.Stop(t.Context())

		require.ErrorContains(t, err, "shell did not end when asked to and was killed")
		require.NoError(t, child.Err(), "a requested end is not unexpected")
		requireGone(t, grandchild)
	})

	t.Run("LeavesNothingOfItsGroupWhenItEnds", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		child, err := localstack.StartChild(localstack.ChildConfig{
			Name: "shell", Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & echo $! >pid"}, Dir: dir,
		})
		require.NoError(t, err)
		<-child.Done()

		requireGone(t, readPid(t, filepath.Join(dir, "pid")))
	})

	t.Run("TrimsALogThatGrewTooLong", func(t *testing.T) {
		t.Parallel()

		log := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(log, []byte("an older run\n"), 0o600))
		require.NoError(t, os.Truncate(log, 17<<20))

		child, err := localstack.StartChild(localstack.ChildConfig{Name: "echo", Path: "/bin/sh", Args: []string{"-c", "echo this run"},
			Log: log})
		require.NoError(t, err)
		<-child.Done()

		now, err := os.ReadFile(log)
		require.NoError(t, err)
		require.Equal(t, "this run\n", string(now))
		older, err := os.Stat(log + ".1")
		require.NoError(t, err)
		require.EqualValues(t, 17<<20, older.Size())
	})

	t.Run("CannotBeAMissingProgram", func(t *testing.T) {
		t.Parallel()

		_, err := localstack.StartChild(localstack.ChildConfig{Name: "ghost", Path: "/nowhere/ghost"})

		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "start ghost")
	})
}

func TestKeeper(t *testing.T) {
	t.Parallel()

	start := func(script string) func(context.Context) (*localstack.Child, error) {
		return func(context.Context) (*localstack.Child, error) {
			return localstack.StartChild(localstack.ChildConfig{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}})
		}
	}

	t.Run("RestartsAProgramThatEndsByItself", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		first, err := start("exit 3")(ctx)
		require.NoError(t, err)
		started := make(chan *localstack.Child, 1)
		ended := make(chan error, 1)
		keeper := localstack.Keeper{Name: "shell", Start: func(ctx context.Context) (*localstack.Child, error) {
			child, err := start("sleep 1000")(ctx)
			started <- child
			return child, err
		}}
		go func() { ended <- keeper.Run(ctx, first) }()

		second := <-started
		cancel()

		require.NoError(t, <-ended)
		require.False(t, gone(second.Pid()), "a keeper stops no child itself")
		require.NoError(t, second.Stop(t.Context()))
	})

	t.Run("DoesNotRestartAStoppedProgram", func(t *testing.T) {
		t.Parallel()

		child, err := start("sleep 1000")(t.Context())
		require.NoError(t, err)
		require.NoError(t, child.Stop(t.Context()))

		require.NoError(t, localstack.Keeper{Name: "shell"}.Run(t.Context(), child))
	})

	t.Run("RetriesUntilTheCauseIsGone", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		first, err := start("exit 3")(ctx)
		require.NoError(t, err)
		started := make(chan *localstack.Child, 1)
		ended := make(chan error, 1)
		tries := 0
		keeper := localstack.Keeper{Name: "shell", Permanent: localstack.Permanent, Start: func(ctx context.Context) (*localstack.Child, error) {
			if tries++; tries == 1 {
				return nil, fmt.Errorf("postgres does not answer: %w",
					&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ENOENT)})
			}
			if tries <= 6 {
				return nil, fmt.Errorf("start postgres: %w", &os.PathError{Op: "open", Path: "postgres.log", Err: syscall.ENOSPC})
			}
			child, err := start("sleep 1000")(ctx)
			started <- child
			return child, err
		}}
		go func() { ended <- keeper.Run(ctx, first) }()

		second := <-started
		cancel()

		require.NoError(t, <-ended)
		require.NoError(t, second.Stop(t.Context()))
	})

	t.Run("SaysWhyItGivesUp", func(t *testing.T) {
		t.Parallel()

		for _, cause := range []error{
			fmt.Errorf("start postgres: %w", &os.PathError{Op: "fork/exec", Path: "/nowhere/postgres", Err: os.ErrNotExist}),
			errors.New("postgres ended unexpectedly: PANIC:  could not locate a valid checkpoint record"),
			&localstack.MissingError{Name: "Redis"},
		} {
			child, err := start("exit 3")(t.Context())
			require.NoError(t, err)
			keeper := localstack.Keeper{Name: "shell", Permanent: localstack.Permanent, Start: func(context.Context) (*localstack.Child, error) {
				return nil, cause
			}}

			err = keeper.Run(t.Context(), child)

			require.ErrorContains(t, err, "shell ended and cannot be started again: ")
			require.ErrorIs(t, err, cause)
		}
	})
}

func TestListenPrivate(t *testing.T) {
	t.Parallel()

	for name, dir := range map[string]string{"BelowTheFolder": "data", "ElsewhereIfThePathIsTooLong": strings.Repeat("long", 30)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := filepath.Join(shortTempDir(t), dir)
			require.NoError(t, os.Mkdir(dir, 0o711))
			killed, err := localstack.ListenPrivate(dir)
			require.NoError(t, err)
			t.Cleanup(func() { killed.Close() })

			socket, err := localstack.ListenPrivate(dir)

			require.NoError(t, err, "the socket of a killed process must be replaced")
			info, err := os.Stat(filepath.Dir(socket.Path()))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			require.NoError(t, socket.Close())
			require.NoDirExists(t, filepath.Dir(socket.Path()))
		})
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()

	t.Run("EndsWithAProcessItFollows", func(t *testing.T) {
		t.Parallel()

		child, err := localstack.StartChild(localstack.ChildConfig{Name: "cat", Path: "/bin/sleep", Args: []string{"1000"}})
		require.NoError(t, err)
		ctx, err := localstack.Follow(t.Context(), strconv.Itoa(os.Getpid())+" "+strconv.Itoa(child.Pid()))
		require.NoError(t, err)
		require.NoError(t, ctx.Err())

		child.Kill()

		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
	})

	t.Run("RefusesAnInvalidProcessID", func(t *testing.T) {
		t.Parallel()

		_, err := localstack.Follow(t.Context(), "12 x")

		require.ErrorContains(t, err, `"x" is not a process id`)
	})
}

func TestLockDir(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheProcessThatHoldsIt", func(t *testing.T) {
		t.Parallel()

		dir := filepath.Join(t.TempDir(), "data")
		lock, err := localstack.LockDir(dir)
		require.NoError(t, err)

		_, err = localstack.LockDir(dir)

		require.ErrorContains(t, err, dir+" is in use by process "+strconv.Itoa(os.Getpid()))
		require.NoError(t, lock.Release())
		again, err := localstack.LockDir(dir)
		require.NoError(t, err)
		require.NoError(t, again.Release())
	})

	t.Run("SaysWhatToDoIfThePathCannotBeWritten", func(t *testing.T) {
		t.Parallel()

		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))

		_, err := localstack.LockDir(filepath.Join(file, "data"))

		require.ErrorIs(t, err, syscall.ENOTDIR)
		require.ErrorContains(t, err, "Give this user the right to write there, or choose another directory")
	})
}

// shortTempDir returns a directory whose path is short enough for a Unix socket.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711), "the other user of a server that root starts must be able to enter")
	return dir
}

// readPid waits for the file and reads the process id in it.
func readPid(t *testing.T, path string) (pid int) {
	t.Helper()
	testrun.Eventually(t, path+" holds a process id", func() bool {
		content, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil
	})
	return pid
}
