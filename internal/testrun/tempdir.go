package testrun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/internal/localstack"
)

// tempDirs is the prefix of the temporary folders of test binaries. Each folder has a lock
// that its owner holds while it runs.
const tempDirs = "reelay-test-"

// lockFile is the file to which localstack.LockDir writes the owner's process id.
const lockFile = "lock"

// ownTempDir creates a folder for all temporary files of this process and its children,
// and removes the folders of processes that were killed. The folder is in memory if
// possible, unless TMPDIR is set. Its name is short because the path of a Unix socket
// must be short.
func ownTempDir() (remove func(), err error) {
	parent := os.TempDir()
	removeAbandoned(parent)
	if fast, ok := fastFolder(); ok && os.Getenv("TMPDIR") == "" {
		parent = fast
		removeAbandoned(parent)
	}
	dir, err := os.MkdirTemp(parent, tempDirs)
	if err != nil {
		return nil, err
	}
	lock, err := localstack.LockDir(dir)
	if err != nil {
		return nil, err
	}
	// Other users may enter: a PostgreSQL that root starts runs as another user.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return nil, err
	}
	return func() {
		if err := removeDir(dir); err != nil {
			fmt.Fprintln(os.Stderr, "testrun:", err)
		}
		lock.Release()
	}, nil
}

// removeAbandoned removes each folder whose owner is gone. It ignores failures, since
// children of the owner may still be ending; the next run tries again.
func removeAbandoned(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, tempDirs+"*"))
	for _, dir := range dirs {
		if info, err := os.Stat(filepath.Join(dir, lockFile)); err != nil || info.Size() == 0 {
			continue // its owner has not locked it yet
		}
		lock, err := localstack.LockDir(dir)
		if err != nil {
			continue
		}
		_ = removeDir(dir)
		lock.Release()
	}
}

// removeDir removes the lock last, so that a folder that could not be removed still shows
// its owner.
func removeDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	unmountBelow(dir)
	var errs []error
	for _, entry := range entries {
		if entry.Name() != lockFile {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
