package testrun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reelay/reelay/internal/localstack"
)

// tempDirs are the folders of temporary files that test binaries make, each with
// a lock that its owner holds while it lives.
const tempDirs = "reelay-test-"

// lockFile is what localstack.LockDir writes the owner's process id to.
const lockFile = "lock"

// ownTempDir makes a folder for all temporary files of this process and of those
// that it starts, and removes the folders of processes that were killed. It is in
// memory where that is possible, unless TMPDIR names another place. Its name is
// short, because the paths of Unix sockets are.
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
	// Others may pass: a private PostgreSQL of root's runs as another user.
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

// removeAbandoned removes each folder whose owner is gone. A failure is left to
// the next run: processes of the owner's may be on their way out.
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

// removeDir removes the lock last, so that what cannot be removed now still shows
// who owned it.
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
