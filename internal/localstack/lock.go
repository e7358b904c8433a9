package localstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// DirLock is this process's exclusive right to a data directory.
type DirLock struct{ file *os.File }

// LockDir makes dir if need be, and takes it for this process until Release, or
// the end of the process, however it ends. It returns an error
// that names the other process if there is one, and an error that says what to
// do if dir cannot be written.
func LockDir(dir string) (*DirLock, error) {
	// Others may pass, not look: a server that root starts is one of them, and
	// whatever lies in dir is closed by its own mode.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, unusable(dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unusable(dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer file.Close()
		return nil, fmt.Errorf("the data directory %s is in use by process %s: stop that one first, or choose another directory", dir, holder(file))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory %s: %w", dir, err), file.Close())
	}
	if err := signHolder(file); err != nil {
		return nil, errors.Join(unusable(dir, err), file.Close())
	}
	return &DirLock{file}, nil
}

// Release gives the directory back. A child that is being started may hold a
// copy of the file for another moment: to close it alone would not do.
func (l *DirLock) Release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// takeDir locks a directory that is a server's own, and closes it to other
// users also where it was there before. It returns the directory's absolute
// path, which a server with a working directory of its own needs.
func takeDir(dir string) (string, *DirLock, error) {
	if dir == "" {
		return "", nil, errors.New("a server needs a data directory")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	lock, err := LockDir(dir)
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", nil, errors.Join(unusable(dir, err), lock.Release())
	}
	return dir, lock, nil
}

func unusable(dir string, err error) error {
	return fmt.Errorf("the data directory %s cannot be used: %w. Give this user the right to write there, or choose another directory", dir, err)
}

func signHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder reads who has signed the lock. Whoever has only just taken it signs it
// in a moment.
func holder(file *os.File) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	pid := make([]byte, 20)
	for {
		if n, _ := file.ReadAt(pid, 0); n > 0 {
			return string(bytes.TrimSpace(pid[:n]))
		}
		if pause(ctx) != nil {
			return "(unknown)"
		}
	}
}
